package arch

// room is one part of the code: a directory with what is below it, unless that is a room of its own.
type room struct {
	dir string
	// may are the rooms it may import, or everything: the rooms whose name begins so.
	may []string
	// stdOnly refuses modules of others.
	stdOnly bool
	// never are imports it must not have even so, with everything below them.
	never []string
	// members asks for a comment on every field of its exported structs and every method of its exported interfaces as well.
	members bool
	// anchor marks the room that only keeps modules in go.mod before code imports them.
	anchor bool
}

// rooms is the plan of the house. A directory that is in none of them is a fault: a new room has to say whom it imports.
var rooms = []room{
	{dir: "poller", stdOnly: true, never: []string{"net", "os", "syscall", "runtime"}},
	{dir: "queues"},
	{dir: "xdpprog"},
	{dir: "engine", may: []string{"poller", "queues", "xdpprog", "internal/host", "internal/napi", "engine"}, never: presentation},
	{dir: "engine/fib", never: presentation},
	{dir: "engine/screen", never: presentation},
	{dir: "internal/host", members: true},
	{dir: "internal/napi", members: true},
	{dir: "internal/config", members: true},
	{dir: "internal/control", members: true},
	{dir: "internal/nettest"},
	{dir: "internal/vmtest"},
	{dir: "internal/arch"},
	{dir: "bench", may: []string{"poller", "queues", "xdpprog", "engine", "internal", "bench"}},
	{dir: "cmd", may: []string{"poller", "queues", "xdpprog", "engine", "internal", "bench", "cmd"}},
}

// presentation is what the engine must not see.
var presentation = []string{"net/http", "github.com/goccy/go-yaml", "github.com/prometheus", "github.com/alecthomas/kong"}

// testsMay are rooms that any test may import.
var testsMay = []string{"internal/nettest", "queues/ringtest"}

// onlyTests are imports that belong in tests. gopacket allocates for every packet.
var onlyTests = []string{"testing", "github.com/gopacket", "github.com/stretchr/testify", "github.com/rogpeppe/go-internal"}

// clockless are rooms that are told the time and start nothing: no function of package time that reads or waits, no go statement.
var clockless = []string{"poller"}

// clock are those functions.
var clock = map[string]bool{
	"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true, "AfterFunc": true, "Tick": true, "NewTimer": true, "NewTicker": true,
}

// maxLines and maxTestLines bound a file. Tables of cases may be longer than code, generated files as long as they like.
const (
	maxLines     = 500
	maxTestLines = 800
)
