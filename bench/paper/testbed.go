package paper

import (
	"fmt"
	"math"
	"reflect"
)

// Testbed is everything that is assumed of the 1996 router, its hardware and
// the host that sends to it: one set for all curves. The tags say what each
// constant is, in which unit, and whether it was fitted to the calibrating
// curves; Constants reads them.
type Testbed struct {
	Costs
	Sizes
	Traffic
}

// Costs are times on the router's CPU, a DECstation 3000/300.
type Costs struct {
	Interrupt float64 `unit:"µs" fit:"yes" is:"enter and leave one device interrupt"`
	Dispatch  float64 `unit:"µs" fit:"yes" is:"switch to a kernel thread that was woken"`
	Loop      float64 `unit:"µs" fit:"yes" is:"one round of the polling thread, beyond what it calls"`
	Receive   float64 `unit:"µs" fit:"yes" is:"driver: take one packet off the receive ring"`
	Queue     float64 `unit:"µs" fit:"yes" is:"put one packet on the IP input queue and take it off"`
	Forward   float64 `unit:"µs" fit:"yes" is:"IP: check, route and rewrite one packet"`
	Start     float64 `unit:"µs" fit:"yes" is:"driver: hand one packet to the transmit ring"`
	Reclaim   float64 `unit:"µs" fit:"yes" is:"driver: free one finished transmit descriptor"`
	Tick      float64 `unit:"µs" is:"one clock interrupt"`

	Enqueue float64 `unit:"µs" fit:"yes" is:"IP, in place of Forward: put one packet on the screening queue"`
	Wakeup  float64 `unit:"µs" fit:"yes" is:"wake the sleeping screening process"`
	Switch  float64 `unit:"µs" fit:"yes" is:"switch to another process, or to one that has slept"`
	Call    float64 `unit:"µs" fit:"yes" is:"its system call: send on the last packet, fetch the next; no thread preempts it"`
	Decide  float64 `unit:"µs" fit:"yes" is:"its decision on one packet, in user mode"`
	Resume  float64 `unit:"µs" fit:"yes" is:"go on with a process that a kernel thread has preempted"`
	Refill  float64 `unit:"µs" is:"and refill its caches, if it is the screening process: 2 × 8 KB in lines of 32 B, at a little over 100 ns each"`
	Daemons float64 `unit:"µs" fit:"yes" is:"CPU time that all other processes together want, once every DaemonsEvery"`

	Noise float64 `unit:"of a cost" is:"each cost differs from one time to the next by up to this part either way"`
}

// Sizes are facts of the hardware and of the kernel's source.
type Sizes struct {
	ReceiveRing  int     `unit:"descriptors" is:"receive ring"`
	TransmitRing int     `unit:"descriptors" is:"transmit ring; type transmitter says why it decides figure 6-5"`
	InputQueue   int     `unit:"packets" is:"IP input queue of the unmodified kernel"`
	OutputQueue  int     `unit:"packets" is:"output queue of the interface"`
	ScreenQueue  int     `unit:"packets" is:"screening queue"`
	ScreenHigh   int     `unit:"packets" is:"feedback closes input here"`
	ScreenLow    int     `unit:"packets" is:"and opens it here"`
	Wire         float64 `unit:"µs" is:"one minimum frame with preamble and gap at 10 Mbit/s"`
	TickEach     float64 `unit:"µs" is:"clock period, 1024 Hz"`
	PeriodTicks  int     `unit:"ticks" is:"period of the CPU share"`
	DaemonsEvery float64 `unit:"µs" is:"how often the other processes want the CPU"`
}

// Traffic describes the host that sends a trial's packets.
type Traffic struct {
	Packets    int     `unit:"packets" is:"length of a trial"`
	Jitter     float64 `unit:"of a gap" is:"part of each gap that is exponentially distributed"`
	Drift      float64 `unit:"of the rate" is:"the rate wanders by up to this part either way"`
	DriftEach  float64 `unit:"µs" is:"and is drawn anew after so long"`
	Pause      float64 `unit:"µs" is:"the host stops for so long now and then"`
	PauseEvery float64 `unit:"µs" is:"once in so long, half to one and a half times"`
}

// DEC1996 returns the set in force. What is not fitted is known (sizes, wire,
// clock), or assumed because no curve tells it well (Tick, Refill, Noise and
// all of Traffic): calibrate.txt says where those come from.
func DEC1996() Testbed {
	return Testbed{
		Costs: Costs{
			Interrupt: 16.6, Dispatch: 19.9, Loop: 45.2, Receive: 54, Queue: 5.5,
			Forward: 102.6, Start: 15.9, Reclaim: 9.5, Tick: 35,
			Enqueue: 50.3, Wakeup: 39.9, Switch: 29.8, Call: 85, Decide: 28.2,
			Resume: 5, Refill: 55, Daemons: 16300, Noise: 0.05,
		},
		Sizes: Sizes{
			ReceiveRing: 32, TransmitRing: 8, InputQueue: 50, OutputQueue: 50,
			ScreenQueue: 32, ScreenHigh: 24, ScreenLow: 8,
			Wire: 67.2, TickEach: 976.5625, PeriodTicks: 10, DaemonsEvery: 1e6,
		},
		Traffic: Traffic{
			Packets: 10000, Jitter: 0.07, Drift: 0.05, DriftEach: 20e3,
			Pause: 8e3, PauseEvery: 500e3,
		},
	}
}

// Constant is one field of a Testbed, with its tags.
type Constant struct {
	Name    string  `json:"name"`
	Unit    string  `json:"unit"`
	Meaning string  `json:"meaning"`
	Fitted  bool    `json:"fitted"`
	Value   float64 `json:"value"`

	field reflect.Value
}

// Constants returns every field of bed, in order.
func (bed *Testbed) Constants() []Constant {
	var list []Constant
	groups := reflect.ValueOf(bed).Elem()
	for i := range groups.NumField() {
		group := groups.Field(i)
		for j := range group.NumField() {
			f := group.Type().Field(j)
			c := Constant{
				Name: f.Name, Unit: f.Tag.Get("unit"), Meaning: f.Tag.Get("is"), Fitted: f.Tag.Get("fit") == "yes",
				field: group.Field(j),
			}
			if c.field.CanInt() {
				c.Value = float64(c.field.Int())
			} else {
				c.Value = c.field.Float()
			}
			list = append(list, c)
		}
	}
	return list
}

// set changes the field in its Testbed. A whole number stays one.
func (c *Constant) set(value float64) {
	c.Value = value
	if c.field.CanInt() {
		c.Value = math.Round(value)
		c.field.SetInt(int64(c.Value))
		return
	}
	c.field.SetFloat(value)
}

// String returns name and value with unit.
func (c Constant) String() string { return fmt.Sprintf("%s %.4g %s", c.Name, c.Value, c.Unit) }
