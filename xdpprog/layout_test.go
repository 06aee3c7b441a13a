package xdpprog

import (
	"reflect"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/stretchr/testify/require"
)

// The Go structs over shared memory and map keys have the names, offsets and sizes that the objects' type information gives the C ones.
func TestLayouts(t *testing.T) {
	for _, object := range []struct {
		name  string
		load  func() (*ebpf.CollectionSpec, error)
		types map[string]any
	}{
		{"rx", loadRx, map[string]any{
			"door": doorMemory{}, "port": portMemory{}, "bucket": bucketMemory{}, "destinations": destinationsMemory{}, "slot": slotMemory{},
			"local4_key": local4Key{}, "local6_key": local6Key{}, "prefix4_key": prefix4Key{}, "prefix6_key": prefix6Key{},
		}},
		{"generator", loadGenerator, map[string]any{
			"generator": generatorMemory{}, "plan": planMemory{}, "progress": progressMemory{},
		}},
		{"sink", loadSink, map[string]any{"total": SinkCount{}}},
	} {
		spec, err := object.load()
		require.NoError(t, err)
		for name, v := range object.types {
			t.Run(object.name+" "+name, func(t *testing.T) {
				var c *btf.Struct
				require.NoError(t, spec.Types.TypeByName(name, &c))
				sameLayout(t, name, c, reflect.TypeOf(v))
			})
		}
	}
}

func sameLayout(t *testing.T, path string, c btf.Type, g reflect.Type) {
	size, err := btf.Sizeof(c)
	require.NoError(t, err)
	require.Equal(t, size, int(g.Size()), "size of %s", path)
	switch c := btf.UnderlyingType(c).(type) {
	case *btf.Struct:
		require.Equal(t, reflect.Struct, g.Kind(), path)
		require.Equal(t, len(c.Members), g.NumField(), "fields of %s", path)
		for i, m := range c.Members {
			f := g.Field(i)
			require.Equal(t, goName(m.Name), strings.ToLower(f.Name), "field %d of %s", i, path)
			require.EqualValues(t, m.Offset.Bytes(), f.Offset, "offset of %s.%s", path, m.Name)
			sameLayout(t, path+"."+m.Name, m.Type, f.Type)
		}
	case *btf.Array:
		require.Equal(t, reflect.Array, g.Kind(), path)
		if elem, _ := btf.Sizeof(c.Type); elem == int(g.Elem().Size()) {
			require.EqualValues(t, c.Nelems, g.Len(), path)
			sameLayout(t, path+"[]", c.Type, g.Elem())
		} // else an address, of words there and of bytes here
	}
}

// goName turns a C name into the Go one in lower case; padding has no name in Go.
func goName(c string) string {
	if strings.HasPrefix(c, "pad") {
		return "_"
	}
	return strings.ReplaceAll(c, "_", "")
}

// The halves of a door that have different writers are in different pairs of cache lines, and doors do not share any.
func TestDoorHalvesAreApart(t *testing.T) {
	door := reflect.TypeOf(doorMemory{})
	spent, ok := door.FieldByName("spent")
	require.True(t, ok)
	require.EqualValues(t, 128, spent.Offset)
	require.Zero(t, door.Size()%128)
	// What is read or written for nearly every frame: one cache line on each side.
	for _, name := range []string{"granted", "shut", "forgotten", "gate", "unlimited", "teach", "cpu", "driving"} {
		f, ok := door.FieldByName(name)
		require.True(t, ok, name)
		require.Less(t, f.Offset, uintptr(64), name)
	}
	for _, name := range []string{"spent", "seen", "seenHere", "seenDriven", "redirected", "droppedNoCredit", "droppedEgress"} {
		f, ok := door.FieldByName(name)
		require.True(t, ok, name)
		require.Less(t, f.Offset, spent.Offset+64, name)
	}
	require.Zero(t, reflect.TypeOf(bucketMemory{}).Size()%64)
}

func TestClassNames(t *testing.T) {
	seen := map[string]bool{}
	for c := range Class(NumClasses) {
		require.NotEmpty(t, c.String())
		require.False(t, seen[c.String()], c.String())
		seen[c.String()] = true
	}
	require.Equal(t, "class_8", Class(NumClasses).String())
	require.Equal(t, "mode 7", AttachMode(7).String())
}
