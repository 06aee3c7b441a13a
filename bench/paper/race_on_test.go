//go:build race

package paper

// raceEnabled tells that the race detector slows everything down tenfold.
const raceEnabled = true
