package config

type position struct{ line, column int }

func Default() *Config                                { return &Config{} }
func Load(path string) (*Config, error)               { return Default(), nil }
func Parse(name string, data []byte) (*Config, error) { return Default(), nil }
func (c *Config) Clone() *Config                      { return c }
func (c *Config) AddPort(name string) error           { return nil }
func (c *Config) Set(assignment string) error         { return nil }
func (c *Config) Validate() error                     { return nil }
func (c *Config) Effective() []byte                   { return nil }
func Diff(old, new *Config) []Change                  { return nil }

// Change is one key whose value differs between two configurations.
type Change struct {
	// Key is the key's path, as Set takes it.
	Key string
	// Old and New are the values as the file writes them.
	Old, New string
	// Live says that a running weir can take the new value; otherwise it needs a restart.
	Live bool
}
