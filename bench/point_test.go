package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParsePoint(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Point
		text string
	}{
		{"0.25", Point{Multiple: 0.25}, "0.25x"},
		{"4x", Point{Multiple: 4}, "4x"},
		{"800k", Point{PPS: 800_000}, "800k"},
		{"max", MaxPoint, "max"},
	} {
		p, err := ParsePoint(c.in)
		require.NoError(t, err)
		require.Equal(t, c.want, p)
		require.Equal(t, c.text, p.String())
	}
	for _, bad := range []string{"", "0", "-1", "x", "NaN", "Inf", "1001"} {
		_, err := ParsePoint(bad)
		require.ErrorContains(t, err, "must be a multiple", "%q", bad)
	}
}

func TestParseRate(t *testing.T) {
	for _, c := range []struct {
		in   string
		pps  uint64
		text string
	}{
		{"800k", 800_000, "800k"},
		{"1.2M", 1_200_000, "1.2M"},
		{"15", 15, "15"},
		{"123456", 123_456, "123.5k"},
		{"max", 0, "max"},
	} {
		p, err := ParseRate(c.in)
		require.NoError(t, err)
		require.Equal(t, Point{PPS: c.pps}, p)
		require.Equal(t, c.text, p.String())
	}
	for _, bad := range []string{"", "0", "-5", "0.2", "k", "1G", "NaN", "2e9", "1e300"} {
		_, err := ParseRate(bad)
		require.ErrorContains(t, err, "must be packets per second", "%q", bad)
	}
}

func TestPointAt(t *testing.T) {
	require.Equal(t, Point{Multiple: 0.5, PPS: 200_000}, Point{Multiple: 0.5}.at(400_000))
	require.Equal(t, Point{PPS: 7}, Point{PPS: 7}.at(400_000))
	require.Equal(t, MaxPoint, MaxPoint.at(400_000))
	require.True(t, relative([]Point{MaxPoint, {Multiple: 1}}))
	require.False(t, relative([]Point{MaxPoint, {PPS: 1}}))
}
