package model

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"sync"
	"text/tabwriter"
)

// Options of Run. Zero values are refused by Command, not here.
type Options struct {
	Mode   Mode
	Frame  int       // bytes without preamble and gap, 64 to 1518
	Cores  []int     // how many cores forward
	Queues int       // receive queues of the port; 0 is one for each core
	Rates  []float64 // Gbit/s
	Costs  *Costs    // nil measures them
}

// Report is what Run found.
type Report struct {
	Notice string   `json:"notice"`
	Mode   Mode     `json:"mode"`
	Frame  int      `json:"frame_bytes"`
	Costs  Costs    `json:"costs"`
	Onsets []Onset  `json:"livelock_begins"`
	Points []Result `json:"points"`
}

// Result is one number of cores at one rate.
type Result struct {
	Cores     int                   `json:"cores"`
	Gbps      float64               `json:"gbit_per_s"`
	Offered   float64               `json:"offered_pps"`
	Delivered map[Mechanism]float64 `json:"delivered_pps"`
}

// Onset tells from where on a core delivers less than half of its best, in
// packets/s offered to that core and in Gbit/s offered to the port by the
// number of cores. A core that never does has none.
type Onset struct {
	Mechanism Mechanism       `json:"mechanism"`
	Peak      float64         `json:"peak_pps_per_core"`
	Begins    float64         `json:"begins_pps_per_core,omitempty"`
	Gbps      map[int]float64 `json:"begins_gbit_per_s_by_cores,omitempty"`
}

var mechanisms = []Mechanism{Off, Door, Owned}

// pps is a port's rate in packets per second: each frame takes 20 B more on the
// wire, preamble and gap.
func pps(gbps float64, frame int) float64 { return gbps * 1e9 / (8 * float64(frame+20)) }

// Run measures and plays. It takes some seconds.
func Run(ctx context.Context, o Options) (*Report, error) {
	r := &Report{
		Notice: "MODEL, not a measurement: weir's scheduler in virtual time, one core played and multiplied",
		Mode:   o.Mode, Frame: o.Frame,
	}
	var err error
	if o.Costs != nil {
		r.Costs = *o.Costs
	} else if r.Costs, err = Measure(o.Mode, o.Frame); err != nil {
		return nil, err
	}

	var tasks []task
	for _, m := range mechanisms {
		for _, p := range ladder() {
			tasks = append(tasks, task{how: m, pps: p, queues: 1})
		}
	}
	onsets := len(tasks)
	for _, cores := range o.Cores {
		busy, queues := spread(cores, o.Queues)
		for _, gbps := range o.Rates {
			for _, m := range mechanisms {
				tasks = append(tasks, task{how: m, pps: pps(gbps, o.Frame) / float64(busy), queues: queues})
			}
		}
	}
	if err := playAll(ctx, r.Costs, tasks); err != nil {
		return nil, err
	}

	for i, m := range mechanisms {
		steps := len(ladder())
		r.Onsets = append(r.Onsets, onset(m, tasks[i*steps:(i+1)*steps], o))
	}
	next := tasks[onsets:]
	for _, cores := range o.Cores {
		busy, _ := spread(cores, o.Queues)
		for _, gbps := range o.Rates {
			p := Result{Cores: cores, Gbps: gbps, Offered: pps(gbps, o.Frame), Delivered: make(map[Mechanism]float64)}
			for _, m := range mechanisms {
				p.Delivered[m] = next[0].delivered * float64(busy)
				next = next[1:]
			}
			r.Points = append(r.Points, p)
		}
	}
	return r, nil
}

// spread tells how many cores have a queue, and how many queues such a core has.
func spread(cores, queues int) (busy, each int) {
	if queues == 0 {
		queues = cores
	}
	busy = min(cores, queues)
	return busy, (queues + busy - 1) / busy
}

// ladder is the rates at which a core is tried: twelve steps to each factor of
// ten, from 100,000 to 1,000,000,000 packets/s.
func ladder() []float64 {
	var list []float64
	for e := 0.0; e <= 4; e += 1.0 / 12 {
		list = append(list, 1e5*math.Pow(10, e))
	}
	return list
}

type task struct {
	how       Mechanism
	pps       float64
	queues    int
	delivered float64
}

// playAll plays the tasks, on every CPU there is.
func playAll(ctx context.Context, cost Costs, tasks []task) error {
	jobs := make(chan *task)
	var once sync.Once
	var failed error
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for t := range jobs {
				var err error
				if t.delivered, err = play(cost, t.how, t.pps, t.queues); err != nil {
					once.Do(func() { failed = err })
				}
			}
		})
	}
	for i := range tasks {
		if ctx.Err() == nil {
			jobs <- &tasks[i]
		}
	}
	close(jobs)
	workers.Wait()
	if failed == nil {
		failed = ctx.Err()
	}
	return failed
}

// onset reads off one mechanism's ladder.
func onset(m Mechanism, steps []task, o Options) Onset {
	on := Onset{Mechanism: m}
	for _, s := range steps {
		on.Peak = max(on.Peak, s.delivered)
	}
	// From the end: what counts is from where on it stays low.
	for i := len(steps) - 1; i >= 0 && steps[i].delivered < on.Peak/2; i-- {
		on.Begins = steps[i].pps
	}
	if on.Begins == 0 {
		return on
	}
	on.Gbps = make(map[int]float64)
	for _, cores := range o.Cores {
		busy, _ := spread(cores, o.Queues)
		on.Gbps[cores] = on.Begins * float64(busy) * 8 * float64(o.Frame+20) / 1e9
	}
	return on
}

// WriteJSON writes the whole report.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}

// WriteTable writes costs, onsets and points for reading.
func (r *Report) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%s\n%d B frames, %s\n\n", r.Notice, r.Frame, r.Mode)
	for _, i := range r.Costs.Measured {
		fmt.Fprintf(t, "measured\t%s\t%.1f ns\t%s\n", i.Name, i.NS, i.How)
	}
	for _, i := range r.Costs.Assumed {
		fmt.Fprintf(t, "assumed\t%s\t%.1f ns\t%s\n", i.Name, i.NS, i.How)
	}
	c := r.Costs
	fmt.Fprintf(t, "so a packet costs\treceive %.0f, drop at the door %.0f, forward %.0f, transmit %.0f ns; a kick %.0f ns\n\n",
		c.Receive, c.Door, c.Forward, c.Transmit, c.Kick)
	if err := t.Flush(); err != nil {
		return err
	}
	r.writeOnsets(t)
	r.writePoints(t)
	return t.Flush()
}

func (r *Report) writeOnsets(t io.Writer) {
	for _, o := range r.Onsets {
		fmt.Fprintf(t, "%s\tpeak %s Mpps a core\t", o.Mechanism, mpps(o.Peak))
		if o.Begins == 0 {
			fmt.Fprintf(t, "livelock does not begin up to %s Mpps a core\n", mpps(ladder()[len(ladder())-1]))
			continue
		}
		fmt.Fprintf(t, "livelock (under half of the peak) from %s Mpps a core on\n", mpps(o.Begins))
	}
}

func (r *Report) writePoints(t io.Writer) {
	fmt.Fprint(t, "\ncores\tGbit/s\toffered Mpps")
	for _, m := range mechanisms {
		fmt.Fprintf(t, "\t%s", m)
	}
	fmt.Fprintln(t)
	peak := make(map[Mechanism]float64)
	for _, o := range r.Onsets {
		peak[o.Mechanism] = o.Peak
	}
	for _, p := range r.Points {
		fmt.Fprintf(t, "%d\t%g\t%s", p.Cores, p.Gbps, mpps(p.Offered))
		for _, m := range mechanisms {
			mark := ""
			if p.Delivered[m] < 0.5*min(p.Offered, peak[m]*float64(p.Cores)) {
				mark = " livelock"
			}
			fmt.Fprintf(t, "\t%s%s", mpps(p.Delivered[m]), mark)
		}
		fmt.Fprintln(t)
	}
}

func mpps(x float64) string { return fmt.Sprintf("%.2f", x/1e6) }
