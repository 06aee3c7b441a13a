package config

import "time"

// Default is the configuration of an empty file: everything but the ports.
func Default() *Config {
	return &Config{
		Poller: Poller{
			Mode:         ModeHybrid,
			Ownership:    OwnershipAuto,
			Quota:        256,
			Feedback:     Feedback{High: 75, Low: 25, Timeout: time.Millisecond},
			CPUShare:     CPUShare{Limit: 90, Period: 10 * time.Millisecond},
			EarlyDiscard: DiscardXDP,
		},
		UMEM:    UMEM{FrameSize: 2048},
		Rings:   Rings{RX: 2048, TX: 2048, Fill: 2048, Completion: 2048, FillDepth: 1024, Backlog: 1024},
		Metrics: Metrics{Listen: "127.0.0.1:9473"},
	}
}
