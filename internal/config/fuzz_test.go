package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzParse feeds arbitrary files: every answer is a configuration that survives being printed and read again, or one line of error.
func FuzzParse(f *testing.F) {
	f.Add([]byte(example))
	f.Add(Default().Effective())
	for _, s := range []string{
		"", "ports: [{name: a}, {name: b, quota: inf}]", "poller: {feedback: off}", "workers: [1, 2]", "? a\n: b", "a: &b c\nd: *b",
		"metrics: {listen: '[::1]:80'}", "ports:\n- name: \"\\u00e9\"", "%YAML 1.2\n---\nworkers: auto\n...", "poller:\n  quota: |\n    5",
		"poller: {mode: poll, ownership: io_uring, early_discard: off, cpu_share: {strict: false}}", "rings: {fill_depth: 64, fill_min: 64}",
		"ports: [{name: a, feedback: off, backlog: 64}, {name: a.feedback, feedback: {low: 0%}}]\npoller: {feedback: off, nice: -20}",
		"rings: {fill_depth: 1}",
		"control: {socket: \"/a: #b\"}", "{", "[", "- - -", "\"", "'", "!!", "*", "&", ":", "\t", "\xff\xfe",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("f", data)
		if err != nil {
			var e *Error
			require.ErrorAs(t, err, &e)
			require.NotEmpty(t, err.Error())
			require.NotContains(t, err.Error(), "\n")
			return
		}
		reread(t, c)
	})
}

// FuzzSet applies arbitrary assignments: a refused one changes nothing, a taken one survives being printed and read again.
func FuzzSet(f *testing.F) {
	for _, s := range []string{"poller.quota=5", "ports.a.quota=inf", "workers=1, 2", "metrics.listen=:80", "control.socket=/x",
		"poller.mode=interrupt", "poller.ownership=kthread", "poller.cpu_share.strict=false", "poller.early_discard=off", "rings.fill_min=1",
		"ports.a.feedback=off", "ports.a.feedback.low=0%", "ports.a.feedback.high=9.5%", "ports.a.backlog=64", "poller.nice=19", "rings.fill_depth=9", "=", "ports..="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, assignment string) {
		c := Default()
		require.NoError(t, c.AddPort("a"))
		before := string(c.Effective())
		if err := c.Set(assignment); err != nil {
			require.Equal(t, before, string(c.Effective()))
			require.NotContains(t, err.Error(), "\n")
			return
		}
		reread(t, c)
	})
}
