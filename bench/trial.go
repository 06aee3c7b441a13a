package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/procfs"

	"weir/xdpprog"
)

const (
	warmUp = 500 * time.Millisecond
	// userHZ is the unit of the CPU times in /proc, fixed by the kernel's interface to user space.
	userHZ = 100
)

// Trial is one measurement of one device under test at one rate.
type Trial struct {
	DUT string `json:"dut"`
	// Asked is the generator's rate in packets per second; 0 is as fast as it goes.
	Asked uint64 `json:"asked_pps"`
	// Offered and Delivered are rates over the measured time, warm-up left out.
	Offered   float64 `json:"offered_pps"`
	Delivered float64 `json:"delivered_pps"`
	// User and System are the CPU time of the device's process over the measured time, in CPUs; both 0 for the kernel.
	User   float64 `json:"user_cpus"`
	System float64 `json:"system_cpus"`
	// Foreign is what others took of the forwarder's CPU, in CPUs: processes that are not measured, and the hypervisor.
	Foreign float64 `json:"foreign_cpus"`
	// Void says that Foreign was above maxForeign; a void trial counts for nothing.
	Void bool `json:"void"`
}

const (
	// maxForeign is what others may take of the forwarder's CPU before a trial is void. CPU times come in hundredths of a second.
	maxForeign = 0.05
	// maxVoid bounds how often in a row a void trial is repeated.
	maxVoid = 3
)

// reading is all counters at one moment.
type reading struct {
	at                 time.Time
	offered, delivered uint64
	user, system       float64 // seconds of the measured process
	busy, stolen       float64 // seconds of the forwarder's CPU: all processes; the hypervisor
}

// measure starts the device, offers rate for the warm-up and then for duration, and counts over the latter.
func measure(ctx context.Context, r *Rig, d DUT, rate uint64, duration time.Duration) (_ Trial, err error) {
	trial := Trial{DUT: d.Name, Asked: rate}
	pid, stop, err := d.start(ctx, r)
	if err != nil {
		return trial, fmt.Errorf("%s: %w", d.Name, err)
	}
	defer func() { err = errors.Join(err, stop()) }()
	sink, err := r.AttachSink()
	if err != nil {
		return trial, err
	}
	defer func() { err = errors.Join(err, sink.Close()) }()

	flood, end := context.WithCancel(ctx)
	generated := make(chan error, 1)
	go func() {
		generated <- OnCPU(generatorCPU, func() error {
			_, err := r.Flood(flood, rate, xdpprog.Bounds{Duration: warmUp + duration + time.Minute})
			return err
		})
	}()
	first, second, err := readTwice(ctx, r, sink, pid, duration)
	end()
	err = errors.Join(err, <-generated)
	if err != nil {
		return trial, err
	}
	seconds := second.at.Sub(first.at).Seconds()
	trial.Offered = float64(second.offered-first.offered) / seconds
	trial.Delivered = float64(second.delivered-first.delivered) / seconds
	trial.User, trial.System = (second.user-first.user)/seconds, (second.system-first.system)/seconds
	trial.Foreign = (second.busy+second.stolen-first.busy-first.stolen)/seconds - trial.User - trial.System
	// The kernel's own forwarding has no process: what it does on that CPU cannot be told from what others do.
	trial.Void = pid != 0 && trial.Foreign > maxForeign
	return trial, nil
}

func readTwice(ctx context.Context, r *Rig, sink *xdpprog.Sink, pid int, duration time.Duration) (first, second reading, err error) {
	if err := pause(ctx, warmUp); err != nil {
		return first, second, err
	}
	if first, err = readAll(r, sink, pid); err != nil {
		return first, second, err
	}
	if err := pause(ctx, duration); err != nil {
		return first, second, err
	}
	second, err = readAll(r, sink, pid)
	return first, second, err
}

func readAll(r *Rig, sink *xdpprog.Sink, pid int) (reading, error) {
	var now reading
	offered, err := r.Offered()
	if err != nil {
		return now, err
	}
	count, err := sink.Count()
	if err != nil {
		return now, err
	}
	now = reading{at: time.Now(), offered: offered, delivered: count.Packets}
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return now, err
	}
	stat, err := fs.Stat()
	if err != nil {
		return now, err
	}
	cpu := stat.CPU[forwarderCPU]
	now.busy, now.stolen = cpu.User+cpu.Nice+cpu.System, cpu.Steal
	if pid != 0 {
		process, err := fs.Proc(pid)
		if err != nil {
			return now, err
		}
		stat, err := process.Stat()
		if err != nil {
			return now, err
		}
		now.user, now.system = float64(stat.UTime)/userHZ, float64(stat.STime)/userHZ
	}
	return now, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
