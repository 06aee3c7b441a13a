package config

import "time"

// Default is the configuration of an empty file: everything but the ports.
func Default() *Config {
	return &Config{
		Poller: Poller{
			Mode:         PollerHybrid,
			Quota:        64,
			Feedback:     Feedback{High: 75, Low: 25, Timeout: time.Millisecond},
			CPUShare:     CPUShare{Limit: 90, Period: 10 * time.Millisecond},
			EarlyDiscard: DiscardXDP,
		},
		// 16384 frames of 2048 bytes are 32 MiB a worker: eight receive queues with 1024 frames each at the kernel, and as many
		// again in transmit rings and backlogs.
		UMEM:    UMEM{Frames: 16384, FrameSize: 2048},
		Rings:   Rings{RX: 2048, TX: 2048, Fill: 2048, Completion: 2048},
		Metrics: Metrics{Listen: "127.0.0.1:9473"},
	}
}
