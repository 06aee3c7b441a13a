package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Legacy iptables keeps a table as one block of entries. Each hook's chain runs from its hook entry to its underflow, which is the
// policy; user chains lie between. linux/netfilter/x_tables.h, linux/netfilter_ipv4/ip_tables.h.
const (
	// soGetInfo and soGetEntries are IPT_SO_GET_INFO and IPT_SO_GET_ENTRIES; IPv6 has the same numbers.
	soGetInfo    = 64
	soGetEntries = 65
	// sizeofInfo is struct ipt_getinfo: name, valid hooks, 5 hook entries, 5 underflows, number and size of entries.
	sizeofInfo = 32 + 4 + 5*4 + 5*4 + 4 + 4
	// entriesOffset is where struct ipt_get_entries holds its entries: name and size, aligned to 8.
	entriesOffset = 40
	// verdictOffset is where a standard target holds its verdict: after struct xt_entry_target.
	verdictOffset = 32
	// verdictDrop is -NF_DROP - 1.
	verdictDrop = -1
	// maxTable bounds a table in bytes: some 500,000 rules.
	maxTable = 256 << 20
)

// xtables is one of the two families of legacy iptables.
type xtables struct {
	command     string // whose tables these are
	names       string // file below /proc/thread-self/net that names the tables in use
	domain      int
	level       int
	targetField int // where an entry holds the offsets of its target and of the next entry
}

var xtablesFamilies = []xtables{
	// struct ipt_ip is 84 bytes, struct ip6t_ip6 136; nfcache follows.
	{"iptables-legacy", "ip_tables_names", unix.AF_INET, unix.IPPROTO_IP, 84 + 4},
	{"ip6tables-legacy", "ip6_tables_names", unix.AF_INET6, unix.IPPROTO_IPV6, 136 + 4},
}

// xtablesHooks are the chains on the way of a forwarded packet, by hook number.
var xtablesHooks = map[int]string{
	unix.NF_INET_PRE_ROUTING: "PREROUTING", unix.NF_INET_FORWARD: "FORWARD", unix.NF_INET_POST_ROUTING: "POSTROUTING",
}

// iptables lists chains of legacy iptables on the way of forwarded packets that hold rules or drop.
func iptables([]netlink.Link) ([]Finding, error) {
	var found []Finding
	for _, family := range xtablesFamilies {
		names, err := os.ReadFile("/proc/thread-self/net/" + family.names)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s tables: %w", family.command, err)
		}
		// Only tables in use are asked for: asking for another would create it.
		for _, table := range strings.Fields(string(names)) {
			chains, err := family.read(table)
			if err != nil {
				return nil, fmt.Errorf("read %s table %s: %w", family.command, table, err)
			}
			for _, c := range chains {
				if c.rules > 0 || c.policy == "DROP" {
					found = append(found, Finding{
						fmt.Sprintf("%s table %s chain %s", family.command, table, c.name),
						fmt.Sprintf("%s (policy %s)", rules(c.rules), c.policy),
					})
				}
			}
		}
	}
	return found, nil
}

// xtablesChain is one built-in chain of a table.
type xtablesChain struct {
	name   string
	rules  int
	policy string
}

// read asks the kernel for a table and looks through it.
func (x xtables) read(table string) ([]xtablesChain, error) {
	fd, err := unix.Socket(x.domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	// A table that changes between the two calls changes its size, and the second is refused.
	for range 5 {
		info := make([]byte, sizeofInfo)
		copy(info[:31], table)
		if err := getsockopt(fd, x.level, soGetInfo, info); err != nil {
			return nil, err
		}
		size := binary.NativeEndian.Uint32(info[sizeofInfo-4:])
		if size > maxTable {
			return nil, fmt.Errorf("%d bytes of rules are too many to look through", size)
		}
		request := make([]byte, entriesOffset+int(size))
		copy(request[:31], table)
		binary.NativeEndian.PutUint32(request[32:], size)
		err := getsockopt(fd, x.level, soGetEntries, request)
		if err == nil {
			return x.parse(info, request[entriesOffset:])
		}
		if err != unix.EAGAIN {
			return nil, err
		}
	}
	return nil, errors.New("it keeps changing")
}

var errTable = errors.New("the table is not laid out as expected")

// parse finds rules and policies of the chains in a table.
func (x xtables) parse(info, entries []byte) ([]xtablesChain, error) {
	if len(info) < sizeofInfo {
		return nil, errTable
	}
	word := func(i int) int { return int(binary.NativeEndian.Uint32(info[32+4*i:])) }
	var chains []xtablesChain
	for hook := range 5 {
		name, ours := xtablesHooks[hook]
		if !ours || word(0)&(1<<hook) == 0 {
			continue
		}
		at, underflow := word(1+hook), word(6+hook)
		c := xtablesChain{name: name, policy: "ACCEPT"}
		for at < underflow {
			next, err := x.offset(entries, at, 2)
			if err != nil || next == 0 {
				return nil, errTable
			}
			at += next
			c.rules++
		}
		target, err := x.offset(entries, underflow, 0)
		if err != nil || at != underflow || underflow+target+verdictOffset+4 > len(entries) {
			return nil, errTable
		}
		if int32(binary.NativeEndian.Uint32(entries[underflow+target+verdictOffset:])) == verdictDrop {
			c.policy = "DROP"
		}
		chains = append(chains, c)
	}
	return chains, nil
}

// offset reads one of the two offsets of the entry at a place: of its target, or of the next entry.
func (x xtables) offset(entries []byte, at, field int) (int, error) {
	i := at + x.targetField + field
	if at < 0 || i+2 > len(entries) {
		return 0, errTable
	}
	return int(binary.NativeEndian.Uint16(entries[i:])), nil
}
