package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/procfs"

	"weir/xdpprog"
)

// device is a device under test at work: started, then its receive work placed, and the sink counting behind it.
type device struct {
	rig     *Rig
	dut     DUT
	placed  *imposed
	running running
	sink    *xdpprog.Sink
	// beside is a process that shall compete with it, 0 for none.
	beside int
}

// install puts a device to work. The caller removes it.
func install(ctx context.Context, r *Rig, dut DUT, placement Placement) (_ *device, err error) {
	d := &device{rig: r, dut: dut}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: %w", dut.Name, err), d.remove())
		}
	}()
	if d.running, err = dut.start(ctx, r); err != nil {
		return nil, err
	}
	if d.placed, err = placement.impose(r); err != nil {
		return nil, err
	}
	d.sink, err = r.AttachSink()
	return d, err
}

// remove takes it off the rig.
func (d *device) remove() error {
	var errs []error
	if d.placed != nil {
		errs = append(errs, d.placed.lift())
	}
	if d.running.stop != nil {
		errs = append(errs, d.running.stop())
	}
	if d.sink != nil {
		errs = append(errs, d.sink.Close())
	}
	return errors.Join(errs...)
}

// flood is traffic to offer.
type flood struct {
	rate     uint64 // packets per second; 0 is as fast as the generator goes
	warmUp   time.Duration
	measured time.Duration
	// beside is started before the measured time and ended after it, while the flood goes on; nil for none.
	beside func() (end func() error, err error)
}

// observed is what a flood did.
type observed struct {
	first, second reading // at the ends of the measured time
	last          reading // when the flood had ended and nothing came out any more
	before, after usage   // around the measured time
	// changes are what is not as the placement was imposed, at the end of the measured time.
	changes []string
}

// reading is the counters at one moment.
type reading struct {
	at                 time.Time
	offered, delivered uint64
	user, system       float64 // seconds of CPU that the device's process has used
}

// flood offers traffic to the device and observes.
func (d *device) flood(ctx context.Context, f flood) (o observed, err error) {
	flooding, end := context.WithCancel(ctx)
	defer end()
	generated := make(chan error, 1)
	go func() {
		generated <- OnCPU(generatorCPU, func() error {
			_, err := d.rig.Flood(flooding, f.rate, xdpprog.Bounds{Duration: f.warmUp + f.measured + time.Minute})
			return err
		})
	}()
	err = d.observe(ctx, f, &o, generated)
	end()
	if errors.Is(err, errGenerator) {
		return o, err // its own error is in it
	}
	if err := errors.Join(err, <-generated); err != nil {
		return o, err
	}
	o.last, err = d.drain(ctx)
	return o, err
}

// errGenerator is wrapped when the generator ended by itself.
var errGenerator = errors.New("the generator ended too early")

func (d *device) observe(ctx context.Context, f flood, o *observed, generated <-chan error) (err error) {
	wait := func(t time.Duration) error {
		select {
		case <-time.After(t):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case err := <-generated:
			return fmt.Errorf("%w: %w", errGenerator, errors.Join(err, ctx.Err()))
		}
	}
	if err := wait(f.warmUp); err != nil {
		return err
	}
	if f.beside != nil {
		end, failed := f.beside()
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, end()) }()
	}
	if o.before, err = readUsage(); err != nil {
		return err
	}
	if o.first, err = d.read(); err != nil {
		return err
	}
	if err := wait(f.measured); err != nil {
		return err
	}
	if o.second, err = d.read(); err != nil {
		return err
	}
	if o.after, err = readUsage(); err != nil {
		return err
	}
	o.changes, err = d.placed.changes()
	return err
}

func (d *device) read() (reading, error) {
	var now reading
	var err error
	if now.offered, err = d.rig.Offered(); err != nil {
		return now, err
	}
	now.at = time.Now()
	count, err := d.sink.Count()
	if err != nil {
		return now, err
	}
	now.delivered = count.Packets
	if d.running.pid == 0 {
		return now, nil
	}
	process, err := procfs.NewProc(d.running.pid)
	if err != nil {
		return now, err
	}
	stat, err := process.Stat()
	if err != nil {
		return now, err
	}
	now.user, now.system = float64(stat.UTime)/userHZ, float64(stat.STime)/userHZ
	return now, nil
}

// livelocks asks the device's watchdog. A worker that has just been outranked for seconds may need a moment before it answers.
func (d *device) livelocks(ctx context.Context) (n uint64, err error) {
	if d.running.livelocks == nil {
		return 0, nil
	}
	for range 10 {
		if n, err = d.running.livelocks(ctx); err == nil || ctx.Err() != nil {
			break
		}
	}
	return n, err
}

const (
	drainStep  = 20 * time.Millisecond
	drainSteps = 100
)

// drain waits until what the device still holds has come out, two seconds at most, and reads the counters.
func (d *device) drain(ctx context.Context) (reading, error) {
	last, err := d.read()
	for range drainSteps {
		delivered := last.delivered
		if err == nil {
			err = pause(ctx, drainStep)
		}
		if err == nil {
			last, err = d.read()
		}
		if err != nil || last.delivered == delivered {
			break
		}
	}
	return last, err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
