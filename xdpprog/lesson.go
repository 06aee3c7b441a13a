package xdpprog

// A lesson is how a socket of the worker learns which NAPI serves a queue: a socket takes the NAPI's id from a packet it receives, and an
// AF_XDP socket does not do so on every driver. On request the program turns the next frame to be forwarded into a datagram to a UDP
// socket that is bound to the interface:
//
//	frame      │ Ethernet  IP  …  42 bytes │ the rest           │
//	           └──────────────┬────────────┴─────────┬──────────┘
//	datagram   LessonHead ◄───┘                      └──► payload, from 0.0.0.0:0 to 255.255.255.255:port
//
// The two together are the frame, byte for byte, and the worker owes it to its destination: it was neither dropped nor paid for with a
// credit.

const (
	// LessonHeadLen is how many bytes of a frame a lesson overwrites: Ethernet, IPv4 and UDP headers. A frame that has fewer in the
	// linear part of its buffer becomes no lesson.
	LessonHeadLen = 42

	// MinLesson is how many bytes the shortest frame has that becomes a lesson.
	MinLesson = 44
	// MaxLesson is how many bytes the longest frame has that becomes a lesson, if PortConfig.MaxLen is not below it.
	MaxLesson = 2048
)

// Teach asks for one lesson to a UDP port: the next frame to be forwarded goes there, whether or not gate and credits would let it in.
// Each call is a request of its own, answered at most once; it replaces one that is open. Port 0 withdraws the request, which spares the
// program a comparison per frame once the lesson has come. The socket must be bound to the port, on 0.0.0.0 and to the interface
// (SO_BINDTODEVICE), before. Read what an earlier request left in the socket before asking again: LessonHead belongs to the last lesson.
//
// A lesson can get lost on its way through the host (a full socket, a firewall): then Lessons rose and nothing arrives.
func (d *Door) Teach(port uint16) {
	const request = 1 << 16
	next := d.mem.teach.Load()&^(request-1) + request | uint32(port)
	if next == d.mem.taught.Load() { // once around
		next += request
	}
	d.mem.teach.Store(next)
}

// LessonHead returns the first bytes of the frame that the last lesson was made of, valid once its datagram has arrived and until the
// next lesson. The frame is these followed by the datagram's payload.
func (d *Door) LessonHead() [LessonHeadLen]byte { return d.mem.lessonHead }

// LessonLen returns the length in bytes of that frame, LessonHeadLen plus the datagram's payload, and 0 before the first lesson.
func (d *Door) LessonLen() int { return int(d.mem.lessonLen) }
