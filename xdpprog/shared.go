package xdpprog

import "sync/atomic"

// The Go side of the memory shared with the receive program. Sizes and offsets are those of the structs of the same names in
// bpf/weir_rx.c, and a test compares the two.

// doorMemory is struct door: one queue's gate, credits and counters, in two halves with one writer each.
type doorMemory struct {
	// Written by the worker, read by the program for every frame.
	granted   atomic.Uint64
	shut      atomic.Uint64 // bit e: egress e is congested
	forgotten atomic.Uint64 // destinations with tags up to this one are void
	gate      atomic.Uint32
	unlimited atomic.Uint32
	teach     atomic.Uint32 // number of the request << 16 | UDP port
	cpu       atomic.Uint32 // the worker's CPU + 1
	driving   atomic.Uint32
	_         [84]byte

	// Written by the program on the CPU that runs the queue's NAPI, read by anyone.
	spent           atomic.Uint64
	seen            atomic.Uint64
	seenHere        atomic.Uint64
	seenDriven      atomic.Uint64
	redirected      atomic.Uint64
	droppedNoCredit atomic.Uint64
	droppedEgress   atomic.Uint64
	droppedTooLong  atomic.Uint64
	lessons         atomic.Uint64
	droppedGate     [NumReasons]atomic.Uint64
	passed          [NumClasses]atomic.Uint64
	limited         [NumClasses]atomic.Uint64
	taught          atomic.Uint32       // the last value of teach that was answered
	lessonLen       uint16              // as lessonHead
	lessonHead      [LessonHeadLen]byte // written before the lesson's datagram is sent up; its arrival is what orders the two
	_               [96]byte
}

// slotMemory is struct slot: a destination whose egress is known, written by the worker, read by the program for frames that may be for a
// congested egress.
type slotMemory struct {
	addr [2]atomic.Uint64 // as it is on the wire; IPv4: 0 and the address
	tag  atomic.Uint64    // number of the write << 8 | tagIPv6 | egress; 0 is empty
	_    uint64
}

// destinationsMemory is struct destinations: one queue's slots.
type destinationsMemory struct {
	slots [numSlots]slotMemory
}

// bucketMemory is struct bucket: a class's rate limit.
type bucketMemory struct {
	full     atomic.Uint64 // written by the program
	interval atomic.Uint64 // written here
	depth    atomic.Uint64 // written here
	_        [40]byte
}

// portMemory is struct port: what the queues share.
type portMemory struct {
	mac           atomic.Uint64
	numPrefixes4  atomic.Uint32
	numPrefixes6  atomic.Uint32
	maxLen        atomic.Uint32
	_             [44]byte
	buckets       [NumClasses]bucketMemory
	beyondPassed  atomic.Uint64 // written by the program, with atomic additions
	beyondLimited atomic.Uint64 // written by the program, with atomic additions
	_             [48]byte
}

// The program's keys of the address maps. Addresses are in network byte order.
type (
	local4Key  struct{ Addr [4]byte }
	local6Key  struct{ Addr [16]byte }
	prefix4Key struct {
		Len uint32
		Key local4Key
	}
	prefix6Key struct {
		Len uint32
		Key local6Key
	}
)
