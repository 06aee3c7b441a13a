package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// example uses every kind of value.
const example = `# two ports
ports:
  - name: eth1            # kernel interface
  - name: eth2
    mode: copy
    quota: 32
workers: auto
poller:
  quota: 256
  feedback: {high: 75%, low: 25%, timeout: 1ms}
  cpu_share: {limit: 90%, period: 10ms}
  early_discard: xdp
metrics: {listen: 127.0.0.1:9473}
`

func TestParse(t *testing.T) {
	c, err := Parse("weir.yaml", []byte(example))
	require.NoError(t, err)
	require.NoError(t, c.Validate())
	want := Default()
	want.Ports = []Port{{Name: "eth1", Mode: ModeAuto}, {Name: "eth2", Mode: ModeCopy, Quota: 32}}
	require.Equal(t, want.Ports, c.Ports)
	require.Empty(t, Diff(want, c))
	require.Equal(t, Quota(256), c.PortQuota(c.Ports[0]))
	require.Equal(t, Quota(32), c.PortQuota(c.Ports[1]))
}

func TestParseValues(t *testing.T) {
	c, err := Parse("weir.yaml", []byte(`
ports:
  - {name: "null", allow_management: true, feedback: {high: 60%, low: 0%, timeout: 20us}}
  - {name: lan.7, quota: inf, feedback: off, backlog: 128}
workers: [1, "3"]
poller:
  mode: poll
  ownership: io_uring
  nice: -20
  quota: auto
  feedback: off
  cpu_share: {limit: 12.5%, period: 2ms, strict: true}
  early_discard: off
umem: {frames: 4096, frame_size: 4096}
rings: {rx: 512, tx: 1024, fill: 4096, completion: 64, fill_depth: 100, fill_min: 1, backlog: 256}
accept_bypass: true
metrics: {listen: off}
control: {socket: /run/other.sock}
`))
	require.NoError(t, err)
	require.NoError(t, c.Validate())
	c.file, c.places = "", nil
	require.Equal(t, &Config{
		Ports: []Port{
			{Name: "null", Mode: ModeAuto, AllowManagement: true,
				Feedback: OwnFeedback{Off: new(false), High: new(Percent(60)), Low: new(Percent(0)), Timeout: new(20 * time.Microsecond)}},
			{Name: "lan.7", Mode: ModeAuto, Quota: QuotaInf, Feedback: OwnFeedback{Off: new(true)}, Backlog: 128},
		},
		Workers: []int{1, 3},
		Poller: Poller{
			Mode: ModePoll, Ownership: OwnershipUring, Quota: QuotaAuto, Nice: -20, EarlyDiscard: DiscardOff,
			Feedback: Feedback{Off: true, High: 75, Low: 25, Timeout: time.Millisecond},
			CPUShare: CPUShare{Limit: 12.5, Period: 2 * time.Millisecond, Strict: true},
		},
		UMEM:         UMEM{Frames: 4096, FrameSize: 4096},
		Rings:        Rings{RX: 512, TX: 1024, Fill: 4096, Completion: 64, FillDepth: 100, FillMin: 1, Backlog: 256},
		AcceptBypass: true,
		Control:      Control{Socket: "/run/other.sock"},
	}, c)
}

func TestParseRefuses(t *testing.T) {
	tests := map[string]struct{ file, want string }{
		"empty":            {"", "f:1:1: empty: start from the output of weir check"},
		"only a comment":   {"# nothing\n", "f:1:1: empty: start from the output of weir check"},
		"no mapping":       {"eth1", "f:1:1: not a mapping of keys to values: start from the output of weir check"},
		"two documents":    {"workers: auto\n---\nworkers: auto\n", "f: more than one document: remove what follows the second ---"},
		"syntax":           {"ports:\n  - {name: eth1\n", "f:2:5: "},
		"tab":              {"poller:\n\tquota: 1\n", "f:2:1: "},
		"unknown":          {"pollers: {}", "f:1:1: pollers: unknown key: known here are ports, workers, poller, umem, rings, accept_bypass, metrics, control"},
		"later":            {"screen: {default: accept}", "f:1:1: screen: unknown key: known here are ports,"},
		"unknown nested":   {"poller:\n  cpu_share:\n    limits: 5%", "f:3:5: poller.cpu_share.limits: unknown key: known here are limit, period, strict"},
		"unknown of port":  {"ports:\n  - name: a\n    speed: 1", "f:3:5: ports.a.speed: unknown key: known here are name, mode, quota, feedback, backlog, allow_management"},
		"unknown mark":     {"ports:\n  - name: a\n    feedback: {mid: 1}", "f:3:16: ports.a.feedback.mid: unknown key: known here are high, low, timeout"},
		"port mark":        {"ports:\n  - name: a\n    feedback: {high: 0%}", "f:3:16: ports.a.feedback.high: 0%: must be above 0% and at most 100%"},
		"port timeout":     {"ports: [{name: a, feedback: {timeout: 2s}}]", "f:1:30: ports.a.feedback.timeout: 2s: must be from 10µs to 1s"},
		"port feedback":    {"ports: [{name: a, feedback: none}]", "f:1:19: ports.a.feedback: none: must be a mapping, or off"},
		"port backlog":     {"ports: [{name: a, backlog: 0}]", "f:1:19: ports.a.backlog: 0: must be a power of two, from 64 to 65536 descriptors"},
		"nice low":         {"poller: {nice: -21}", "f:1:10: poller.nice: -21: must be a nice value, from -20 to 19"},
		"nice high":        {"poller: {nice: 20}", "poller.nice: 20: must be a nice value, from -20 to 19"},
		"nice word":        {"poller: {nice: low}", "poller.nice: low: must be a nice value, from -20 to 19"},
		"dotted":           {"poller.quota: 64", "f:1:1: poller.quota: unknown key"},
		"twice":            {"workers: auto\n\"workers\": auto", "f:2:1: workers: given twice: keep one"},
		"twice plain":      {"workers: auto\nworkers: auto", "f:2:1: workers: given twice: keep one"},
		"merge":            {"poller: {<<: 1}", "f:1:10: poller.<<: unknown key"},
		"anchor":           {"workers: &a auto", "f:1:1: workers: anchors, aliases and tags are not supported"},
		"tag":              {"workers: !!str auto", "f:1:1: workers: anchors, aliases and tags are not supported"},
		"null":             {"workers:", "f:1:1: workers: has no value: give one, or remove the key"},
		"null section":     {"poller:\n", "f:1:1: poller: must be a mapping of mode, ownership, quota, nice, feedback, cpu_share, early_discard"},
		"section is value": {"umem: 5", "f:1:1: umem: must be a mapping of frames, frame_size"},
		"value is section": {"accept_bypass: {a: 1}", "f:1:1: accept_bypass: must be a single value, not a mapping"},
		"several lines":    {"workers: |\n  auto\n", "f:1:1: workers: must be on one line"},
		"ports no list":    {"ports: eth1", "f:1:1: ports: must be a list such as [{name: eth1}, {name: eth2}]"},
		"port no mapping":  {"ports: [eth1]", "f:1:9: ports[0]: must be a mapping with a name"},
		"port no name":     {"ports:\n  - name: a\n  - mode: copy", "f:3:5: ports[1].name: must name an interface"},
		"port long name":   {"ports:\n  - name: a123456789012345", "f:2:5: ports: a123456789012345: must be an interface name of 1 to 15 bytes"},
		"port slash":       {"ports: [{name: ../x}]", "f:1:10: ports: ../x: must be an interface name: printable"},
		"port twice":       {"ports:\n  - name: a\n  - name: a", "f:3:5: ports.a: a: is a port already: name it once"},
		"port mode":        {"ports: [{name: a, mode: fast}]", "f:1:19: ports.a.mode: fast: must be auto, zerocopy, copy or generic"},
		"port quota":       {"ports: [{name: a, quota: 0}]", "f:1:19: ports.a.quota: 0: must be at least 1 packet, or auto, or inf"},
		"quota zero":       {"poller:\n  quota: 0", "f:2:3: poller.quota: 0: must be at least 1 packet, or auto, or inf"},
		"quota negative":   {"poller: {quota: -2}", "f:1:10: poller.quota: -2: must be at least 1 packet, or auto, or inf"},
		"quota large":      {"poller: {quota: 65537}", "must be at most 65536 packets, or auto, or inf"},
		"quota huge":       {"poller: {quota: 99999999999999999999}", "must be at most 65536 packets, or auto, or inf"},
		"quota word":       {"poller: {quota: many}", "poller.quota: many: must be a number of packets, or auto, or inf"},
		"quota list":       {"poller: {quota: [1]}", "poller.quota: [1]: must be a number of packets, or auto, or inf"},
		"quota hex":        {"poller: {quota: 0x10}", "poller.quota: 0x10: must be a number of packets"},
		"fill depth":       {"rings: {fill_depth: 0}", "rings.fill_depth: 0: must be a number of frames, from 1 to"},
		"discard":          {"poller: {early_discard: true}", "poller.early_discard: true: must be xdp, ring or off"},
		"feedback word":    {"poller: {feedback: none}", "poller.feedback: none: must be a mapping, or off"},
		"mark plain":       {"poller: {feedback: {high: 75}}", "poller.feedback.high: 75: must be a percentage such as 75%"},
		"mark exponent":    {"poller: {feedback: {high: 7e1%}}", "poller.feedback.high: 7e1%: must be a percentage such as 75%"},
		"mark zero":        {"poller: {feedback: {high: 0%}}", "poller.feedback.high: 0%: must be above 0% and at most 100%"},
		"mark over":        {"poller: {feedback: {low: 101%}}", "poller.feedback.low: 101%: must be from 0% to 100%"},
		"timeout zero":     {"poller: {feedback: {timeout: 0s}}", "poller.feedback.timeout: 0s: must be from 10µs to 1s"},
		"timeout no unit":  {"poller: {feedback: {timeout: 5}}", "poller.feedback.timeout: 5: must be a duration with its unit, such as 1ms"},
		"share zero":       {"poller: {cpu_share: {limit: 0%}}", "poller.cpu_share.limit: 0%: must be above 0% and at most 100%"},
		"share over":       {"poller: {cpu_share: {limit: 100.5%}}", "poller.cpu_share.limit: 100.5%: must be above 0% and at most 100%"},
		"period short":     {"poller: {cpu_share: {period: 1us}}", "poller.cpu_share.period: 1us: must be from 1ms to 1s"},
		"poller mode":      {"poller: {mode: busy}", "f:1:10: poller.mode: busy: must be hybrid, interrupt or poll"},
		"ownership":        {"poller: {ownership: on}", "f:1:10: poller.ownership: on: must be auto, off, socket, io_uring or kthread"},
		"strict":           {"poller: {cpu_share: {strict: maybe}}", "f:1:22: poller.cpu_share.strict: maybe: must be true or false"},
		"fill min zero":    {"rings: {fill_min: 0}", "f:1:9: rings.fill_min: 0: must be a number of frames, from 1 to 65536"},
		"fill min large":   {"rings: {fill_min: 65537}", "rings.fill_min: 65537: must be a number of frames, from 1 to 65536"},
		"workers word":     {"workers: all", "workers: all: must be auto, or a list of CPU numbers such as [1, 2]"},
		"workers none":     {"workers: []", "workers: []: must be auto, or a list of CPU numbers such as [1, 2]"},
		"workers twice":    {"workers: [1, 1]", "workers: [1, 1]: must not hold CPU 1 twice"},
		"workers negative": {"workers: [-1]", "workers: [-1]: must hold CPU numbers from 0 to 8191"},
		"workers nested":   {"workers: [[1]]", "workers: must not be a list of lists"},
		"ring 511":         {"rings: {rx: 511}", "f:1:9: rings.rx: 511: must be a power of two, from 64 to 65536 descriptors"},
		"ring 0":           {"rings: {tx: 0}", "rings.tx: 0: must be a power of two"},
		"ring 1000":        {"rings: {fill: 1000}", "rings.fill: 1000: must be a power of two"},
		"ring large":       {"rings: {completion: 131072}", "rings.completion: 131072: must be a power of two"},
		"frame size":       {"umem: {frame_size: 3000}", "umem.frame_size: 3000: must be 2048 or 4096 bytes"},
		"frames":           {"umem: {frames: 100}", "umem.frames: 100: must be auto, or a multiple of 64 from 64 to 4194304"},
		"listen":           {"metrics: {listen: localhost}", "metrics.listen: localhost: must be host:port such as 127.0.0.1:9473, or off"},
		"listen port":      {"metrics: {listen: \"127.0.0.1:99999\"}", "must end in a port from 0 to 65535, or be off"},
		"socket":           {"control: {socket: weir.sock}", "control.socket: weir.sock: must be an absolute path, or auto"},
		"socket long":      {"control: {socket: /" + strings.Repeat("x", 107) + "}", "must be at most 107 bytes long"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := Parse("f", []byte(tt.file))
			require.Nil(t, c)
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), "\n")
			var e *Error
			require.ErrorAs(t, err, &e)
		})
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "weir.yaml")
	_, err := Load(path)
	require.EqualError(t, err, path+": no such file or directory: name a readable file")
	_, err = Load(dir)
	require.EqualError(t, err, dir+": is a directory: name a readable file")

	require.NoError(t, os.WriteFile(path, []byte(example), 0o600))
	c, err := Load(path)
	require.NoError(t, err)
	require.Len(t, c.Ports, 2)

	require.NoError(t, os.WriteFile(path, make([]byte, maxFile+1), 0o600))
	_, err = Load(path)
	require.ErrorContains(t, err, "larger than 65536 bytes")
}

func TestSet(t *testing.T) {
	c, err := Parse("weir.yaml", []byte(example))
	require.NoError(t, err)
	require.NoError(t, c.AddPort("lan.7"))
	for _, a := range []string{
		"poller.cpu_share.limit=50%", "ports.eth2.quota=auto", "ports.lan.7.mode=generic", "workers=1,2", "poller.feedback=off",
		"accept_bypass=true", "control.socket=/a=b", "metrics.listen=[::1]:80",
	} {
		require.NoError(t, c.Set(a), a)
	}
	require.NoError(t, c.Validate())
	require.Equal(t, Percent(50), c.Poller.CPUShare.Limit)
	require.Equal(t, QuotaAuto, c.Ports[1].Quota)
	require.Equal(t, ModeGeneric, c.Ports[2].Mode)
	require.Equal(t, []int{1, 2}, c.Workers)
	require.True(t, c.Poller.Feedback.Off)
	require.Equal(t, "/a=b", c.Control.Socket)
	require.Equal(t, "[::1]:80", c.Metrics.Listen)
	require.NoError(t, c.Set("poller.feedback.high=80%"))
	require.False(t, c.Poller.Feedback.Off, "a mark asks for feedback")
}

func TestSetRefuses(t *testing.T) {
	for assignment, want := range map[string]string{
		"poller.quota":              "poller.quota: not of the form key=value: for example poller.quota=32",
		"poller.quota=0":            "poller.quota: 0: must be at least 1 packet, or auto, or inf",
		"poller.quota=":             `poller.quota: "": must be a number of packets, or auto, or inf`,
		"poller.quotas=1":           "poller.quotas: unknown key: known here are mode, ownership, quota, nice, feedback, cpu_share, early_discard",
		"quota=1":                   "quota: unknown key: known here are workers, poller, umem, rings, accept_bypass, metrics, control",
		"poller.quota.x=1":          "poller.quota.x: unknown key: known here are mode, ownership, quota,",
		"poller.cpu_share=50%":      "poller.cpu_share: holds limit, period, strict: set one of them",
		"ports=eth1":                "ports: a list: set the keys of one port, such as ports.eth1.quota",
		"ports.eth1=1":              "ports.eth1: not a key of a port: for example ports.eth1.quota",
		"ports.eth9.quota=1":        "ports.eth9.quota: no port eth9: name it under ports, or with --port",
		"ports.eth1.name=eth2":      "ports.eth1.name: unknown key: known here are mode, quota, feedback, backlog, allow_management",
		"ports.eth1.feedback.x=1":   "ports.eth1.feedback.x: unknown key: known here are high, low, timeout",
		"ports.eth9.feedback.low=1": "ports.eth9.feedback.low: no port eth9: name it under ports, or with --port",
		"ports.feedback.high=1%":    "ports.feedback.high: no port feedback",
		"ports.eth1.feedback=none":  "ports.eth1.feedback: none: must be a mapping, or off",
		"ports.eth1.backlog=0":      "ports.eth1.backlog: 0: must be a power of two",
		"ports.eth1.mode=zero\ncop": `ports.eth1.mode: "zero\ncop": must be auto, zerocopy, copy or generic`,
		"=1":                        `"": unknown key`,
		"":                          `"": not of the form key=value`,
	} {
		c := Default()
		require.NoError(t, c.AddPort("eth1"))
		before := c.Clone()
		require.ErrorContains(t, c.Set(assignment), want, assignment)
		require.Equal(t, before, c, assignment)
	}
}

func TestAddPort(t *testing.T) {
	c := Default()
	require.NoError(t, c.AddPort("eth1"))
	require.EqualError(t, c.AddPort("eth1"), "ports.eth1: eth1: is a port already: name it once")
	require.EqualError(t, c.AddPort(""), `ports: "": must be an interface name of 1 to 15 bytes`)
	require.Error(t, c.AddPort("a\x00b"))
	require.Error(t, c.AddPort("a b"))
	require.Error(t, c.AddPort(".."))
	require.Len(t, c.Ports, 1)
}

func TestValidate(t *testing.T) {
	parse := func(s string) *Config {
		c, err := Parse("f", []byte(s))
		require.NoError(t, err)
		return c
	}
	const port = "ports: [{name: a}]\n"
	require.EqualError(t, Default().Validate(), "ports: none: name the interfaces under ports, or with --port")
	require.EqualError(t, parse("workers: auto").Validate(), "f: ports: none: name the interfaces under ports, or with --port")

	crossed := parse(port + "poller:\n  feedback:\n    low: 80%\n")
	require.EqualError(t, crossed.Validate(), "f:4:5: poller.feedback.low: 80%: not below poller.feedback.high, 75%: "+
		"input would close and open at once; 75% and 25% are the defaults")
	require.NoError(t, crossed.Set("poller.feedback.low=75%"))
	require.ErrorContains(t, crossed.Validate(), "poller.feedback.low: 75%: not below", "set by hand, so no place in the file")
	require.NoError(t, crossed.Set("poller.feedback=off"))
	require.NoError(t, crossed.Validate())

	own := parse("ports:\n  - name: a\n    feedback:\n      high: 20%\n")
	const crossedOwn = "ports.a.feedback.low: 25%: not below ports.a.feedback.high, 20%: input would close and open at once"
	require.ErrorContains(t, own.Validate(), "f:4:7: "+crossedOwn, "the mark that the file set")
	require.NoError(t, own.Set("ports.a.feedback.low=25%"))
	require.ErrorContains(t, own.Validate(), crossedOwn)
	require.NoError(t, own.Set("ports.a.feedback.low=19%"))
	require.NoError(t, own.Validate())
	require.NoError(t, own.Set("ports.a.feedback.low=20%"))
	require.Error(t, own.Validate())
	require.NoError(t, own.Set("ports.a.feedback=off"))
	require.NoError(t, own.Validate())
	asked := parse("ports:\n  - name: a\n    feedback: {}\npoller: {feedback: {low: 80%}}\n")
	require.NoError(t, asked.Set("poller.feedback=off"))
	require.ErrorContains(t, asked.Validate(), "f:3:5: ports.a.feedback.low: 80%: not below ports.a.feedback.high, 75%", "the port asks for what the poller has")

	for _, o := range []Ownership{OwnershipSocket, OwnershipUring, OwnershipKthread} {
		never := parse(port + "poller:\n  mode: interrupt\n  ownership: " + string(o) + "\n")
		require.EqualError(t, never.Validate(), "f:4:3: poller.ownership: "+string(o)+": required, but poller.mode is interrupt, which never owns: "+
			"set it to auto or off, or poller.mode to hybrid")
		require.NoError(t, never.Set("poller.mode=poll"))
		require.NoError(t, never.Validate())
		require.NoError(t, never.Set("poller.mode=interrupt"))
		require.NoError(t, never.Set("poller.ownership=off"))
		require.NoError(t, never.Validate())
		require.NoError(t, never.Set("poller.ownership=auto"))
		require.NoError(t, never.Validate())
	}

	// 0 < fill_min ≤ fill_depth ≤ fill.
	depths := parse(port + "rings:\n  fill: 1024\n  fill_depth: 64\n  fill_min: 65\n")
	require.EqualError(t, depths.Validate(), "f:5:3: rings.fill_min: 65: more than rings.fill_depth, 64: "+
		"lower it, or make rings.fill_depth larger; equal keeps the depth fixed")
	require.NoError(t, depths.Set("rings.fill_min=64"))
	require.NoError(t, depths.Validate())
	require.NoError(t, depths.Set("rings.fill_depth=1025"))
	require.ErrorContains(t, depths.Validate(), "rings.fill_depth: 1025: more than rings.fill, 1024, holds")
	require.NoError(t, depths.Set("rings.fill_depth=1024"))
	require.NoError(t, depths.Validate())

	// Values that no text could have set are found as well.
	c := parse(port)
	c.Rings.RX = 511
	require.EqualError(t, c.Validate(), "rings.rx: 511: must be a power of two, from 64 to 65536 descriptors")
	c = parse(port)
	c.Poller.Quota = QuotaInherit
	require.ErrorContains(t, c.Validate(), "ports.a.quota: 0: must be at least 1 packet")
	c = parse(port)
	c.Ports = append(c.Ports, c.Ports[0])
	require.EqualError(t, c.Validate(), "f:1:10: ports.a: a: is a port already: name it once")
	c = parse(port)
	c.Ports[0].Name = ""
	require.ErrorContains(t, c.Validate(), "must be an interface name")
}

func TestEffective(t *testing.T) {
	c := Default()
	require.NoError(t, c.AddPort("eth1"))
	require.NoError(t, c.AddPort("no"))
	for _, a := range []string{"ports.no.quota=8", "ports.no.feedback=off", "ports.no.backlog=64"} {
		require.NoError(t, c.Set(a))
	}
	require.Equal(t, `ports:
  - name: eth1
    mode: auto
    quota: 256
    feedback:
      high: 75%
      low: 25%
      timeout: 1ms
    backlog: 1024
    allow_management: false
  - name: "no"
    mode: auto
    quota: 8
    feedback: off
    backlog: 64
    allow_management: false
workers: auto
poller:
  mode: hybrid
  ownership: auto
  quota: 256
  nice: 0
  feedback:
    high: 75%
    low: 25%
    timeout: 1ms
  cpu_share:
    limit: 90%
    period: 10ms
    strict: false
  early_discard: xdp
umem:
  frames: auto
  frame_size: 2048
rings:
  rx: 2048
  tx: 2048
  fill: 2048
  completion: 2048
  fill_depth: 1024
  fill_min: 512
  backlog: 1024
accept_bypass: false
metrics:
  listen: 127.0.0.1:9473
control:
  socket: auto
`, string(c.Effective()))

	c.Poller.EarlyDiscard, c.Poller.Ownership = DiscardOff, OwnershipOff
	require.Contains(t, string(c.Effective()), "  early_discard: off\n")
	require.Contains(t, string(c.Effective()), "  ownership: off\n")
	c.Poller.Feedback.Off = true
	require.Contains(t, string(c.Effective()), "  feedback: off\n  cpu_share:")
	reread(t, c)
	require.Contains(t, string(Default().Effective()), "ports: []\n")
	reread(t, Default())
}

// reread asserts that what Effective prints is the same configuration.
func reread(t *testing.T, c *Config) {
	t.Helper()
	text := c.Effective()
	again, err := Parse("effective", text)
	require.NoError(t, err, string(text))
	require.Empty(t, Diff(c, again))
	require.Equal(t, string(text), string(again.Effective()))
}

func TestClone(t *testing.T) {
	c, err := Parse("f", []byte(example))
	require.NoError(t, err)
	require.NoError(t, c.Set("workers=[1]"))
	d := c.Clone()
	require.Equal(t, c, d)
	require.NoError(t, c.Set("ports.eth1.feedback.high=70%"))
	d = c.Clone()
	require.NoError(t, d.Set("ports.eth1.mode=copy"))
	require.NoError(t, d.Set("ports.eth1.feedback.high=80%"))
	require.Equal(t, Percent(70), *c.Ports[0].Feedback.High)
	d.Workers[0] = 7
	delete(d.places, "poller.quota")
	require.Equal(t, ModeAuto, c.Ports[0].Mode)
	require.Equal(t, []int{1}, c.Workers)
	require.Contains(t, c.places, "poller.quota")
}

func TestErrorShow(t *testing.T) {
	require.Equal(t, "abc", show("abc"))
	require.Equal(t, `" abc"`, show(" abc"))
	require.Equal(t, `"a\nb"`, show("a\nb"))
	require.Equal(t, `"\xff"`, show("\xff"))
	require.Equal(t, strings.Repeat("x", 64)+"…", show(strings.Repeat("x", 65)))
}

// TestLeavesHaveKeys finds a field of Config that no key reaches.
func TestLeavesHaveKeys(t *testing.T) {
	var leaves func(v reflect.Value) int
	leaves = func(v reflect.Value) int {
		if v.Kind() != reflect.Struct {
			return 1
		}
		n := 0
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				n += leaves(v.Field(i))
			}
		}
		return n
	}
	const portList, portName = 1, 1
	require.Len(t, Default().fields(), leaves(reflect.ValueOf(Config{}))-portList)
	require.Len(t, (&Port{}).fields(), leaves(reflect.ValueOf(Port{}))-portName)
}
