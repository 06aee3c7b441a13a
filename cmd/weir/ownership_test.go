package main

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/bench"
	"weir/internal/napi"
	"weir/xdpprog"
)

// TestOutranked: receive work that outranks the worker, on its CPU, from after its start on, is owned, and weir delivers about what it does
// where receive work is its equal, and more than without its mechanisms. How much more is for the bench to say: a real-time thread
// leaves others a part of the CPU that differs from kernel to kernel.
func TestOutranked(t *testing.T) {
	rig := ownershipRig(t)
	sink := attachSink(t, rig)
	peak := deliveredBy(t, rig, sink, equal)
	with := deliveredBy(t, rig, sink, fifo)
	without := deliveredBy(t, rig, sink, fifo, "--mechanisms", "off")
	t.Logf("delivered, packets/s: %.0f as an equal, %.0f outranked, %.0f outranked without mechanisms", peak, with, without)
	require.Greater(t, with, 0.5*peak)
	require.Greater(t, with, 1.2*without)
}

// deliveredBy is the median rate that arrives in three floods, with receive work of that rank on the worker's CPU. A weir that may own it
// must.
func deliveredBy(t *testing.T, rig *bench.Rig, sink *xdpprog.Sink, rank napi.Rank, args ...string) float64 {
	t.Helper()
	w := startOwner(t, rig, args...)
	place(t, rig, rank)
	var rates []float64
	for range 3 {
		stop := startFlood(t, rig, 0)
		time.Sleep(200 * time.Millisecond)
		rates = append(rates, rate(t, sink, 500*time.Millisecond))
		if len(args) == 0 {
			require.Greater(t, w.drivenShare(t, 200*time.Millisecond), 0.5, "of the packets came by weir's own calls: %+v", w.ownership(t, "in0"))
		}
		stop()
		w.atRest(t)
	}
	w.stop(t)
	slices.Sort(rates)
	return rates[1]
}
