package fib

import (
	"encoding/binary"
	"hash/maphash"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Request asks for the hardware address of Addr on a port.
type Request struct {
	Port int
	Addr netip.Addr
}

const (
	// The kernel sends the first probe at once and the others a second apart; to ask again helps only when it gave up meanwhile, or
	// refused. 200 ms bounds what a packet waits for that, at five requests per second and neighbour.
	resolveGap = 200 * time.Millisecond

	// All requests together: enough to resolve a whole /24 in a quarter of a second, and two percent of what rtnetlink can take.
	// Somebody who scans an empty subnet through us is held to it.
	resolveRate  = 1000 // per second
	resolveBurst = 256

	resolveSlots = 1024
)

// resolver passes requests on to the kernel. Callers of ask share no lock with it or each other.
type resolver struct {
	snapshot func() *Snapshot
	conn     *conn
	queue    chan Request
	done     chan struct{}
	once     sync.Once
	start    time.Time
	seed     maphash.Seed

	// recent remembers when which neighbour was asked for: in the slot its hash points to, the upper half of the hash and
	// milliseconds since start. Two neighbours that share a slot push each other out and are asked for more often, never less.
	recent [resolveSlots]atomic.Uint64

	asked, repeated, limited, failed atomic.Uint64
}

func newResolver(snapshot func() *Snapshot) (*resolver, error) {
	c, err := openConn()
	if err != nil {
		return nil, err
	}
	return &resolver{
		snapshot: snapshot,
		conn:     c,
		queue:    make(chan Request, resolveBurst),
		done:     make(chan struct{}),
		start:    time.Now(),
		seed:     maphash.MakeSeed(),
	}, nil
}

func (r *resolver) close() {
	r.once.Do(func() {
		close(r.done)
		r.conn.Close()
	})
}

// ask queues those requests that are new.
func (r *resolver) ask(reqs []Request) {
	if len(reqs) == 0 {
		return
	}
	now := uint32(time.Since(r.start) / time.Millisecond)
	for _, req := range reqs {
		h := maphash.Comparable(r.seed, req)
		slot := &r.recent[h%resolveSlots]
		old := slot.Load()
		if uint32(old>>32) == uint32(h>>32) && now-uint32(old) < uint32(resolveGap/time.Millisecond) {
			r.repeated.Add(1)
			continue
		}
		if !slot.CompareAndSwap(old, h>>32<<32|uint64(now)) {
			r.repeated.Add(1) // another worker was faster, most likely with the same request
			continue
		}
		select {
		case r.queue <- req:
		default:
			slot.Store(old) // it was not asked for
			r.limited.Add(1)
		}
	}
}

// run sends what is queued until close.
func (r *resolver) run() {
	tokens, last := float64(resolveBurst), time.Now()
	for {
		var req Request
		select {
		case <-r.done:
			return
		case req = <-r.queue:
		}
		now := time.Now()
		tokens = min(resolveBurst, tokens+now.Sub(last).Seconds()*resolveRate)
		last = now
		if tokens < 1 {
			r.limited.Add(1)
			continue
		}
		tokens--
		r.send(req)
	}
}

// send asks the kernel for one neighbour: it makes the entry when there is none, and treats it as used.
func (r *resolver) send(req Request) {
	s := r.snapshot()
	if req.Port < 0 || req.Port >= s.NumPorts() || !req.Addr.IsValid() || s.Port(req.Port).Ifindex == 0 {
		r.failed.Add(1)
		return
	}
	r.asked.Add(1)
	if err := r.conn.exchange(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_ACK, useNeighbour(s.Port(req.Port).Ifindex, req.Addr),
		func(message) {}); err != nil {
		r.failed.Add(1) // not up, table full, …: the next packet asks again
	}
}

// useNeighbour returns the body of an RTM_NEWNEIGH that makes the kernel act as if it had a packet for addr.
func useNeighbour(ifindex int, addr netip.Addr) []byte {
	family := uint8(unix.AF_INET)
	if addr.Is6() {
		family = unix.AF_INET6
	}
	b := make([]byte, unix.SizeofNdMsg, unix.SizeofNdMsg+unix.SizeofNlAttr+16)
	b[0] = family
	binary.NativeEndian.PutUint32(b[4:], uint32(ifindex))
	binary.NativeEndian.PutUint16(b[8:], unix.NUD_NONE)
	b[10] = unix.NTF_USE
	return appendAttr(b, unix.NDA_DST, addr.AsSlice())
}
