package engine

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// plainSum is the checksum as RFC 1071 writes it, word by word.
func plainSum(b []byte) uint16 {
	var acc uint32
	for i := 0; i < len(b); i += 2 {
		word := uint32(b[i]) << 8
		if i+1 < len(b) {
			word |= uint32(b[i+1])
		}
		acc += word
		acc = acc>>16 + acc&0xffff
	}
	return uint16(acc)
}

func TestSumEqualsTheTextbook(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 200 {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
			if n%3 == 0 {
				b[i] = 0xff // all carries
			}
		}
		want, got := plainSum(b), fold(sum(b, 0))
		// 0 and 0xffff are the same number in ones' complement.
		require.Equal(t, want%0xffff, got%0xffff, "length %d", n)
	}
}

func TestDecrementTTLEqualsRecomputing(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 1 << 17 {
		var h [ipv4MinHeaderLen]byte
		for i := range h {
			h[i] = byte(r.Uint32())
		}
		h[8] |= 1                                    // a TTL of 0 is never decremented
		binary.BigEndian.PutUint16(h[4:], uint16(i)) // every checksum there is comes up
		binary.BigEndian.PutUint16(h[10:], 0)
		binary.BigEndian.PutUint16(h[10:], ^plainSum(h[:]))
		decrementTTL(&h)
		got := binary.BigEndian.Uint16(h[10:])
		binary.BigEndian.PutUint16(h[10:], 0)
		require.Equal(t, ^plainSum(h[:]), got, "%x", h)
	}
}

func TestSumOfHeader(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 10000 {
		var h [ipv4MinHeaderLen]byte
		for i := range h {
			h[i] = byte(r.Uint32()) | byte(r.Uint32()) // rich in carries
		}
		require.Equal(t, plainSum(h[:]), fold(sumHeader(&h)), "%x", h)
		require.Equal(t, plainSum(h[12:]), fold(sumAddresses(&h)), "%x", h)
	}
}

func TestCompleteChecksum(t *testing.T) {
	pseudo := sum([]byte{10, 0, 1, 2, 10, 0, 2, 2}, 0)
	segment := func(proto byte, n int) (complete, partial []byte) {
		at := map[byte]int{protoTCP: 16, protoUDP: 6}[proto]
		complete = make([]byte, n)
		for i := range complete {
			complete[i] = byte(i * 7)
		}
		ph := pseudo + uint64(proto) + uint64(n)
		partial = append([]byte(nil), complete...)
		binary.BigEndian.PutUint16(partial[at:], fold(ph))
		binary.BigEndian.PutUint16(complete[at:], 0)
		binary.BigEndian.PutUint16(complete[at:], ^fold(sum(complete, ph)))
		return complete, partial
	}
	for _, proto := range []byte{protoTCP, protoUDP} {
		for _, n := range []int{20, 21, 60, 1459, 1460} {
			complete, partial := segment(proto, n)
			completeChecksum(partial, proto, pseudo)
			require.Equal(t, complete, partial, "protocol %d, %d bytes, partial", proto, n)
			again := append([]byte(nil), complete...)
			completeChecksum(again, proto, pseudo)
			require.Equal(t, complete, again, "protocol %d, %d bytes, complete already", proto, n)
		}
	}
	t.Run("UDP without a checksum stays without", func(t *testing.T) {
		b := make([]byte, 30)
		completeChecksum(b, protoUDP, pseudo)
		require.Equal(t, make([]byte, 30), b)
	})
	t.Run("a segment shorter than its checksum field is left alone", func(t *testing.T) {
		for n := range 17 {
			completeChecksum(make([]byte, n), protoTCP, pseudo)
			completeChecksum(make([]byte, n), protoUDP, pseudo)
		}
	})
}
