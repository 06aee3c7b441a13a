package bench

import (
	"runtime"
	"runtime/debug"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Machine is where and with what a result came about.
type Machine struct {
	CPU     string    `json:"cpu"`
	NumCPU  int       `json:"cpus"`
	Kernel  string    `json:"kernel"`
	Go      string    `json:"go"`
	Version string    `json:"version"` // git revision of the build, "unknown" when it was built without
	Command []string  `json:"command"`
	Time    time.Time `json:"time"`
}

// ThisMachine describes the machine; what cannot be found out is "unknown".
func ThisMachine(command []string) Machine {
	m := Machine{
		CPU: "unknown", NumCPU: runtime.NumCPU(), Kernel: "unknown", Go: runtime.Version(), Version: "unknown",
		Command: command, Time: time.Now().UTC().Truncate(time.Second),
	}
	if fs, err := procfs.NewDefaultFS(); err == nil {
		if cpus, err := fs.CPUInfo(); err == nil && len(cpus) > 0 {
			m.CPU, m.NumCPU = cpus[0].ModelName, len(cpus)
		}
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err == nil {
		m.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		dirty := ""
		for _, s := range build.Settings {
			switch {
			case s.Key == "vcs.revision":
				m.Version = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				dirty = "+changes"
			}
		}
		if m.Version != "unknown" {
			m.Version += dirty
		}
	}
	return m
}
