// Package poller is weir's scheduler: what runs next, how much of it, and when
// the door is shut. It holds no clock, no socket, no thread and no goroutine;
// every decision takes the time as an argument (monotonic nanoseconds) and
// returns what to do. The same code therefore runs under the engine's pinned
// threads, in table and fuzz tests, and in the virtual-time models of bench.
//
//	            Round(now)                                 Settle(now, used)
//	┌──────────────────────────────────────┐   ┌─────────────────────────────────────┐
//	│ transmitters   reap, drain backlogs  │   │ CPU share   charge the round, close │
//	│ queues         open what has drained │   │ queues      high marks, timeouts    │
//	│ receivers      in rotating order:    │──▶│ owners      the state machine below │──▶ Next
//	│   gate open? grant credits, take at  │   │ quota auto  compare, step           │  Again: Round again
//	│   most min(quota, room downstream)   │   │ watchdog    receive, no delivery?   │  Block: wait for an event
//	│ transmitters   kick what is pending  │   └─────────────────────────────────────┘  Sleep: share used up
//	└──────────────────────────────────────┘              ▲                                  │
//	               ▲                                      │ Idle(now), when the CPU          ▼
//	               └──────────────────────────────────────┴─ had nothing else to run ── Woke(now)
//
// A driver (a thread and a clock) is this loop, and nothing more:
//
//	for running {
//		start := clock()
//		s.Round(start)
//		next := s.Settle(clock(), cpuTimeOfTheRound)
//		if next.Do != poller.Again {
//			wait(next)        // see Action for what may end the wait
//			s.Woke(clock())
//		}
//	}
//
// # Words
//
// A receive source (Receiver) has a gate, closed while any Reason holds. A turn
// is one visit to one source; a round is one turn for each. The quota bounds a
// turn. A downstream Queue closes the gates of what feeds it when it is full to
// its high mark, opens them at its low mark, and opens them for a while when
// its timeout passes (see QueueConfig); what a selective queue closes is drawn
// below. Ownership means that a source's receive
// work, its NAPI, runs only when Receive drives it (see Owner).
//
// # Selective queues
//
// A source that can tell at its door what a packet is for (Shutter) need not
// stand still for one full queue. It says which selective queues it feeds.
//
//	                  closed of those it feeds
//	            none            some                  all
//	          ┌──────┐  ┌───────────────────┐  ┌───────────────┐
//	gate      │ open │  │ open              │  │ closed        │
//	door      │ open │  │ SetShut for those │  │ SetShut for   │
//	          │      │  │ that are closed   │  │ all, for later│
//	a turn is │ the room of those that are  │  │ (no turn)     │
//	bound by  │ open, together              │  │               │
//	          └──────┘  └───────────────────┘  └───────────────┘
//
// Packets for a closed queue that are past the door, or that the door does not
// know, are the source's to drop when the queue can hold no more. A timeout
// opens one door for about one turn: long enough to see whether the packets
// still go where they went. Queues that are not selective count beside these:
// any one of them closes the gate.
//
// # Ownership of receive work
//
//	               backlog for Own.Backlog
//	               turns, or Losing();
//	               Competes(),
//	┌───────────┐  handle not known  ┌──────────┐  learned, Competes(), ┌───────┐
//	│ interrupt │ ──────────────────▶│ learning │ ─────────────────────▶│ owned │
//	│           │◀────────────────── │          │  Own() ok             │       │
//	│           │  tries used up,    └──────────┘                       │       │
//	│           │  Own() failed: held                                   │       │
//	│           │  off, doubling;                                       │       │
//	│           │  !Competes()                                          │       │
//	│           │ ── the same, but the handle is known: Own() ok ──────▶│       │
//	│           │◀───── Lost(): link flap, new ids ──────────────────── │       │
//	│           │                    ┌───────────┐  empty for Drain, a  │       │
//	│           │◀────────────────── │ releasing │◀──────────────────── │       │
//	└───────────┘  one more round    └───────────┘  lasting gate, or    └───────┘
//	               has looked                       !Competes():
//	                                                Release(), Drive()
//
// What does not compete for the worker's CPU is left where it is: another CPU
// does it, and owning it would only add it to ours. Mode Poll owns from the
// first packet and does not ask.
//
// Losing counts as much as backlog, because a worker outcompeted for its CPU
// sees no backlog: whenever it runs its ring holds what it had credits for, and
// all else was lost at the door.
//
// Owned sources drain together: while one has work the worker stays awake, and
// giving back the others would buy nothing. Sources that are not owned have no
// part in it. They have their turn every round like all, and neither keep
// others owned nor wait for them.
//
// Nothing announces the packets of an owned source, so while all of them are
// empty, and until that has lasted for Drain, the worker looks again and again,
// Own.Pause apart. It does not spin: packets gather, and others get the CPU. One
// of them may be the kernel thread that polled the device when it was taken: it
// holds the device, and finds the CPU only when the worker leaves it. An event
// of a source that is not owned ends the pause as it ends every Block.
//
// A packet may reach the device between the last look and the unmasking, and
// nothing would announce it. So releasing drives the device once after
// unmasking, and looks at every source in one more round, before the worker may
// block.
//
// # Rules that hold after every call
//
//   - Every receive source has exactly one turn per round, ended by exactly one
//     TurnEnd: Rounds seen by a source = the sum of its turn counters.
//   - A gate is closed exactly while one of its reasons holds.
//   - A downstream queue that stands still stops input for at most its timeout
//     at a time.
//   - A selective queue stops no Shutter that feeds another one which is open.
//     What SetShut said last is what holds: the source feeds it, and it is
//     closed. Only inside Receive the latest SetFeeds are still to come.
//   - Input uses at most its share per period plus one round.
//   - The worker spins only when told to, and only while it owns receive work:
//     with an Own.Pause of 0, or in mode Poll while every source is owned.
//     Otherwise Settle never answers Again twice in a row without progress,
//     releases apart. The one exception is mode Poll while no source has an
//     Owner: the experiment without any of this, a loop that Settle always
//     answers Again, except that it sleeps when the share is used up.
//   - Nobody waits with an open owned source unseen for longer than Own.Pause,
//     or, while an open source is out of frames, than Config.Retry.
//
// # Concurrency and allocation
//
// All methods belong to one goroutine. Callbacks must not call Add…, Remove… or
// Round; SetFeeds is for Receive alone. Nothing is allocated after New and the Add… calls.
package poller
