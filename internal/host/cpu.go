package host

import (
	"fmt"
	"time"

	"github.com/prometheus/procfs"
)

// CPUTimes are what one CPU did since the machine started. The kernel counts in hundredths of a second; except for Idle most kernels
// count by samples.
type CPUTimes struct {
	// Idle includes waiting for input and output; Stolen is the hypervisor's.
	Idle, SoftIRQ, Stolen time.Duration
	// Busy is the time of threads: user, nice and system.
	Busy time.Duration
}

// ReadCPUTimes reads the times of some CPUs from /proc/stat, in their order.
func ReadCPUTimes(cpus ...int) ([]CPUTimes, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return nil, fmt.Errorf("read CPU times: %w", err)
	}
	stat, err := fs.Stat()
	if err != nil {
		return nil, fmt.Errorf("read CPU times: %w", err)
	}
	times := make([]CPUTimes, len(cpus))
	for i, cpu := range cpus {
		c, ok := stat.CPU[int64(cpu)]
		if !ok {
			return nil, fmt.Errorf("read CPU times: CPU %d is not in /proc/stat: is it online?", cpu)
		}
		times[i] = CPUTimes{
			Idle: seconds(c.Idle + c.Iowait), SoftIRQ: seconds(c.SoftIRQ), Stolen: seconds(c.Steal), Busy: seconds(c.User + c.Nice + c.System),
		}
	}
	return times, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
