package engine

import "weir/internal/napi"

// OwnershipStats say what is known of the receive work of one queue: what was asked, what is in force, and what was counted.
type OwnershipStats struct {
	Port  string `json:"port"`
	Queue int    `json:"queue"`
	// Asked is the means the configuration asks for, Means that in force or tried next.
	Asked string `json:"asked"`
	Means string `json:"means"`
	// NAPI is the id, 0 while unknown; Known says that the worker can drive it, Owned that it does.
	NAPI  int  `json:"napi"`
	Known bool `json:"known"`
	Owned bool `json:"owned"`
	// Thread is the NAPI's kernel thread as last seen, with its rank and CPUs; 0 is none.
	Thread     int    `json:"thread"`
	ThreadRank string `json:"thread_rank,omitempty"`
	ThreadCPUs []int  `json:"thread_cpus,omitempty"`
	// Budget is how many packets one of the two polls of a call may take.
	Budget int `json:"budget"`
	// DeferHardIRQs and FlushNS are the masking asked for while owned; Granted is what the NAPI had at the last look.
	DeferHardIRQs        uint32 `json:"defer_hard_irqs"`
	FlushNS              int64  `json:"flush_ns"`
	GrantedDeferHardIRQs uint32 `json:"granted_defer_hard_irqs"`
	GrantedFlushNS       int64  `json:"granted_flush_ns"`
	// Seen frames came to the door; SeenHere of them on the worker's CPU, SeenDriven of these inside the worker's own calls.
	Seen       uint64 `json:"seen"`
	SeenHere   uint64 `json:"seen_here"`
	SeenDriven uint64 `json:"seen_driven"`
	// Polls are the worker's calls. Rescues are the guard's for a worker that was starved; Retaken counts settings of others taken back,
	// Voided NAPIs that went away, Failed calls that failed, LastError the last of them.
	Polls     uint64 `json:"polls"`
	Rescues   uint64 `json:"rescues"`
	Retaken   uint64 `json:"retaken"`
	Voided    uint64 `json:"voided"`
	Failed    uint64 `json:"failed"`
	LastError string `json:"last_error,omitempty"`
	// Lessons are packets that came back to teach the handle.
	Lessons uint64 `json:"lessons"`
	// FillDepth is how many frames are lent for receiving now.
	FillDepth int `json:"fill_depth"`
}

// ownership reads the state of a source's receive work; any goroutine.
func (s *source) ownership(port *port) OwnershipStats {
	st := OwnershipStats{
		Port: port.config.Name, Queue: s.sock.Queue(), Asked: OwnershipOff.String(), Means: OwnershipOff.String(),
		Lessons: s.read(sourceLessons), FillDepth: int(s.read(sourceFillDepth)),
	}
	st.Seen, st.SeenHere, st.SeenDriven = s.door.Seen()
	if s.owner != nil {
		s.owner.stats(&st)
	}
	return st
}

// lessonsOnTheWay is how many lessons were given that are neither back nor given up; any goroutine.
func (s *source) lessonsOnTheWay() uint64 {
	if s.owner == nil {
		return 0
	}
	s.owner.mu.Lock()
	defer s.owner.mu.Unlock()
	if s.owner.onTheWay() {
		return 1
	}
	return 0
}

func (o *owner) stats(st *OwnershipStats) {
	o.mu.Lock()
	defer o.mu.Unlock()
	st.Asked, st.Means = o.asked.String(), o.means.String()
	st.NAPI, st.Known, st.Owned = o.napi.ID, o.learned, o.owned
	st.Budget, st.DeferHardIRQs, st.FlushNS = o.budget, deferHardIRQs, int64(o.flush)
	st.GrantedDeferHardIRQs, st.GrantedFlushNS = o.seen.DeferHardIRQs, int64(o.seen.GROFlush)
	st.Polls, st.Rescues, st.Retaken = o.count.driven.Load(), o.count.rescued.Load(), o.count.retaken.Load()
	st.Voided, st.Failed = o.count.voided.Load(), o.count.failed.Load()
	if o.lastErr != nil {
		st.LastError = o.lastErr.Error()
	}
	if t := o.thread; t.pid != 0 {
		st.Thread, st.ThreadRank, st.ThreadCPUs = t.pid, t.rank.String(), t.cpus
	}
}

// saw keeps what the guard saw of the NAPI.
func (o *owner) saw(n napi.NAPI, t kernelThread) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen, o.thread = n.Settings, t
}
