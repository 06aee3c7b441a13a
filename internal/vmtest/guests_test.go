//go:build vm

package vmtest_test

import (
	"flag"
	"fmt"
	"testing"
)

// full asks for the whole matrix, which takes longer than a change should wait.
var full = flag.Bool("full", false, "test the whole matrix of drivers, queues, CPUs and modes")

// The cards of the guests, in pairs.
var (
	virtio  = card{name: "v", model: "virtio-net-pci", queues: 4, driver: "virtio_net"}
	vmxnet3 = card{name: "m", model: "vmxnet3", driver: "vmxnet3"}
	e1000e  = card{name: "e", model: "e1000e", driver: "e1000e"}
	// virtioOne has one queue, and the host does not coalesce segments for it nor leave their checksums open.
	virtioOne = card{name: "p", model: "virtio-net-pci", driver: "virtio_net", options: []string{
		"guest_csum=off", "guest_tso4=off", "guest_tso6=off", "guest_ecn=off", "guest_ufo=off",
	}}
	// virtioHeld has a host that coalesces segments and cannot be told to stop: its driver refuses XDP.
	virtioHeld = card{
		name: "h", model: "virtio-net-pci", driver: "virtio_net", options: []string{"ctrl_guest_offloads=off"}, merges: true,
	}
)

// guest is one boot and what is tested in it.
type guest struct {
	kernel string
	cpus   int
	cards  []card
	native []string // names of those cards whose driver runs XDP programs in this kernel
	// scenarios are the stated part of the matrix. All is every mode of every card with each number of queues.
	scenarios []scenario
}

var guests = []guest{
	{
		kernel: "6.12", cpus: 2, cards: []card{virtio, vmxnet3, e1000e}, native: []string{"v", "m"},
		scenarios: []scenario{
			{card: "v", combined: 2, mode: "auto", all: true},
			{card: "v", combined: 1, mode: "auto"},
			{card: "v", combined: 4, mode: "copy"},
			{card: "v", combined: 4, mode: "generic"},
			{card: "v", combined: 4, mode: "zerocopy"},
			{card: "m", mode: "auto", all: true},
			{card: "m", mode: "zerocopy"},
			{card: "e", mode: "auto", all: true},
			{card: "e", mode: "copy"},
			{card: "e", mode: "zerocopy"},
		},
	},
	{
		kernel: "6.12", cpus: 1, cards: []card{virtioOne, virtioHeld, vmxnet3, e1000e}, native: []string{"p", "m"},
		scenarios: []scenario{
			{card: "p", mode: "auto", all: true},
			{card: "h", mode: "auto"},
			{card: "h", mode: "copy"},
		},
	},
	{
		kernel: "6.1", cpus: 2, cards: []card{virtio, vmxnet3}, native: []string{"v"},
		scenarios: []scenario{
			{card: "v", combined: 2, mode: "auto", all: true},
			{card: "m", mode: "auto"},
		},
	},
	{kernel: "6.1", cpus: 1, cards: []card{virtioOne, virtioHeld, vmxnet3}, native: []string{"p"}},
}

// matrix is every mode of every card of a guest with each number of queues.
func (g guest) matrix() (all []scenario) {
	for _, c := range g.cards {
		combined := []int{0}
		if c.queues == 4 {
			combined = []int{1, 2, 4}
		}
		for _, n := range combined {
			for _, mode := range []string{"auto", "copy", "generic", "zerocopy"} {
				all = append(all, scenario{card: c.name, combined: n, mode: mode, all: true})
			}
		}
	}
	return all
}

func TestGuests(t *testing.T) {
	for _, g := range guests {
		scenarios := g.scenarios
		if *full {
			scenarios = g.matrix()
		}
		if len(scenarios) == 0 {
			continue
		}
		t.Run(fmt.Sprintf("Linux %s, %d CPU", g.kernel, g.cpus), func(t *testing.T) {
			l := boot(t, g)
			t.Run("VLAN and VRF", l.stacks)
			for _, s := range scenarios {
				t.Run(l.name(s), func(t *testing.T) { l.scenario(t, s) })
				select {
				case <-l.Gone():
					t.Fatal("the guest has ended: nothing more can be tested in it")
				default:
				}
			}
		})
	}
}
