package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

// BeatTrial is light traffic of several kinds at once beside a flood and a process that wants the CPU, weir's share being limited.
type BeatTrial struct {
	ShareTrial
	Beats []Beat `json:"beats"`
}

// Beat is what became of one kind of light traffic.
type Beat struct {
	// Name is the kind, Port where it comes in: in0 is the flooded one.
	Name string `json:"name"`
	Port string `json:"port"`
	Count
	// Gap is the longest time without an arrival, from the first sending to the last, in ms.
	Gap float64 `json:"longest_gap_ms"`
}

// beatRate is how many of each kind are sent per second.
const beatRate = 100

// beat is light traffic: frames sent on one link and taken on another.
type beat struct {
	name, port string
	send       *nettest.PacketConn
	frame      []byte
	take       *tap

	sent        int
	first, last int64 // sent, in ns since 1970
	arrived     []int64
}

// Light traffic: ports, MAC and addresses.
const (
	beatPort   = 7001
	ipOSPF     = 89
	arpRequest = 1
	arpReply   = 2
)

// newBeats opens all kinds: transit, ARP requests to the router, and routing hellos to it; each on either port. The router forwards the
// first and its kernel gets the others. The caller closes them.
func newBeats(r *Rig) (_ *beats, err error) {
	b := &beats{}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	for _, side := range []struct {
		from        *nettest.NS
		link, port  string
		to          *nettest.NS // of transit
		toLink      string
		mac, router net.HardwareAddr
		src, dst    netip.Addr
		gateway     netip.Addr
	}{
		{r.Sink, "s0", "out0", r.Gen, "g0", macS0, macOut0, SinkAddr, GenAddr, netip.MustParseAddr("10.0.2.1")},
		{r.Gen, "g0", inPort, r.Sink, "s0", macG0, macIn0, GenAddr, SinkAddr, netip.MustParseAddr("10.0.1.1")},
	} {
		hello := nettest.NewIP(side.src, netip.MustParseAddr("224.0.0.5"))
		hello.TTL = 1
		for _, kind := range []struct {
			name   string
			frame  []byte
			at     *nettest.NS
			link   string
			filter []bpf.Instruction
		}{
			{"transit", nettest.Ethernet(side.router, side.mac, nettest.NewIP(side.src, side.dst).UDP(beatPort, beatPort, make([]byte, 18))),
				side.to, side.toLink, datagrams(beatPort)},
			{"ARP", arpFor(side.mac, side.src, side.gateway), side.from, side.link, accept(field{12, 2, unix.ETH_P_ARP}, field{20, 2, arpReply})},
			{"hello", nettest.Ethernet(net.HardwareAddr{1, 0, 0x5e, 0, 0, 5}, side.mac, hello.Packet(ipOSPF, make([]byte, 44))),
				r.Router, side.port, accept(field{12, 2, unix.ETH_P_IP}, field{23, 1, ipOSPF})},
		} {
			if err := b.add(&beat{name: kind.name, port: side.port, frame: kind.frame}, side.from, side.link, kind.at, kind.link, kind.filter); err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}

// arpFor asks who has an address.
func arpFor(mac net.HardwareAddr, src, dst netip.Addr) []byte {
	body := []byte{0, 1, 8, 0, 6, 4, 0, arpRequest}
	body = slices.Concat(body, mac, src.AsSlice(), make([]byte, 6), dst.AsSlice(), make([]byte, 18))
	return nettest.EthernetType(net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, mac, unix.ETH_P_ARP, body)
}

// beats are several kinds, sent by one thread of the lab.
type beats struct {
	list  []*beat
	end   context.CancelFunc
	ended chan error
}

func (b *beats) add(one *beat, from *nettest.NS, link string, at *nettest.NS, atLink string, filter []bpf.Instruction) (err error) {
	b.list = append(b.list, one)
	if one.send, err = from.OpenPacket(link); err != nil {
		return err
	}
	one.take, err = newTap(at, atLink, filter)
	return err
}

// start sends until stop.
func (b *beats) start() {
	ctx, end := context.WithCancel(context.Background())
	b.end, b.ended = end, make(chan error, 1)
	go func() {
		b.ended <- onTime(func() error {
			for due := time.Now(); ctx.Err() == nil; due = due.Add(time.Second / beatRate) {
				sleepUntil(due)
				for _, one := range b.list {
					// Without a buffer in the device's queue it is lost there.
					if err := one.send.Send(one.frame); err != nil && !errors.Is(err, unix.ENOBUFS) {
						return fmt.Errorf("send %s beside the flood: %w", one.name, err)
					}
					one.last = time.Now().UnixNano()
					one.first = cmp.Or(one.first, one.last)
					one.sent++
				}
			}
			return nil
		})
	}()
}

func (b *beats) stop() error {
	b.end()
	return <-b.ended
}

// settle is how long the last may take.
const beatSettle = 200 * time.Millisecond

// take reads what has arrived; stop first.
func (b *beats) take(ctx context.Context) (list []Beat, err error) {
	if err := pause(ctx, beatSettle); err != nil {
		return nil, err
	}
	for _, one := range b.list {
		if err := one.take.read(func(_ []byte, at int64) { one.arrived = append(one.arrived, at) }); err != nil {
			return nil, err
		}
		list = append(list, Beat{
			Name: one.name, Port: one.port, Count: Count{Sent: uint64(one.sent), Received: uint64(len(one.arrived))},
			Gap: milliseconds(longestGap(one.arrived, one.first, one.last)),
		})
	}
	return list, nil
}

// longestGap is the longest time between two arrivals, or between the ends and one.
func longestGap(arrived []int64, first, last int64) (gap time.Duration) {
	before := first
	for _, at := range arrived {
		gap = max(gap, time.Duration(at-before))
		before = at
	}
	return max(gap, time.Duration(last-before))
}

func (b *beats) close() error {
	var errs []error
	for _, one := range b.list {
		if one.send != nil {
			errs = append(errs, one.send.Close())
		}
		if one.take != nil {
			errs = append(errs, one.take.close())
		}
	}
	return errors.Join(errs...)
}

// beats makes a trial with light traffic, again while it is invalid.
func (r *shareRun) beats(ctx context.Context, load ShareLoad, p Point, number int) error {
	var last BeatTrial
	_, err := untilValid(number, func() (_ Trial, err error) {
		last, err = r.beatTrial(ctx, load, p)
		return last.Trial, err
	}, func(t Trial) error {
		last.Trial = t
		r.result.Beats = append(r.result.Beats, last)
		return nil
	})
	return err
}

func (r *shareRun) beatTrial(ctx context.Context, load ShareLoad, p Point) (t BeatTrial, err error) {
	b, err := newBeats(r.setup.rig)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	t.ShareTrial, err = r.hogTrial(ctx, load, r.BeatLimit, p, func() (func() error, error) {
		b.start()
		return b.stop, nil
	})
	if err != nil {
		return t, err
	}
	t.Beats, err = b.take(ctx)
	return t, err
}

// writeBeats writes, for a person, the sums over the valid trials and the longest gap of all.
func (r ShareResult) writeBeats(w io.Writer) {
	if len(r.Beats) == 0 {
		return
	}
	type key struct {
		load       ShareLoad
		name, port string
	}
	sums := map[key]*Beat{}
	var keys []key
	trials := map[ShareLoad]int{}
	for _, t := range r.Beats {
		if !t.Valid() {
			continue
		}
		trials[t.ShareLoad]++
		for _, b := range t.Beats {
			k := key{t.ShareLoad, b.Name, b.Port}
			if sums[k] == nil {
				keys, sums[k] = append(keys, k), &Beat{}
			}
			sums[k].Count = sums[k].add(b.Count)
			sums[k].Gap = max(sums[k].Gap, b.Gap)
		}
	}
	first := r.Beats[0]
	fmt.Fprintf(w, "light traffic, %d per second of each kind, beside a flood of %s and a process that wants the CPU, limit %g %%\n%-18s %-8s %-14s %20s %16s %6s\n",
		beatRate, first.Rate, first.Limit, "means, load", "kind", "comes in by", "lost", "longest gap ms", "trials")
	if len(keys) == 0 {
		fmt.Fprintln(w, "void: the rate was not reached, or others used the CPUs, in every trial")
	}
	for _, k := range keys {
		port := k.port
		if port == inPort {
			port += " (flooded)"
		}
		fmt.Fprintf(w, "%-18s %-8s %-14s %20s %16.1f %6d\n", k.load, k.name, port, sums[k].Count, sums[k].Gap, trials[k.load])
	}
}
