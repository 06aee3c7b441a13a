package control

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// maxScrapes bounds scrapes at work at once, and scrapeTimeout each of them; more are answered 503.
	maxScrapes    = 8
	scrapeTimeout = 10 * time.Second
)

// controlHandler answers on the control socket.
func controlHandler(o *Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
		counters, err := o.Stats()
		if err != nil {
			reply(w, o.Log, http.StatusInternalServerError, failure{err.Error()})
			return
		}
		reply(w, o.Log, http.StatusOK, counters)
	})
	// One reload at a time: each must see what the one before left.
	turn := make(chan struct{}, 1)
	mux.HandleFunc("POST /reload", func(w http.ResponseWriter, r *http.Request) {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-r.Context().Done():
			return
		}
		answer, err := o.Reload(r.Context())
		if err != nil {
			reply(w, o.Log, http.StatusConflict, failure{err.Error()})
			return
		}
		if answer.Changed == nil {
			answer.Changed = []Change{}
		}
		reply(w, o.Log, http.StatusOK, answer)
	})
	return mux
}

// failure is the answer to a request that was refused.
type failure struct {
	Error string `json:"error"`
}

// reply encodes v before the first byte is sent, so that a failure can still be said.
func reply(w http.ResponseWriter, log *slog.Logger, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		log.Error("encode answer", "error", err)
		status, body = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be encoded as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
}

// publicHandler answers on the HTTP listener. The error is that of a Collector whose metrics contradict one another.
func publicHandler(o *Options) (http.Handler, error) {
	registry := prometheus.NewRegistry()
	all := []prometheus.Collector{collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}
	if o.Collector != nil {
		all = append(all, o.Collector)
	}
	for _, c := range all {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
		MaxRequestsInFlight: maxScrapes,
		Timeout:             scrapeTimeout,
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if err := o.Health(); err != nil {
			text(w, http.StatusServiceUnavailable, err.Error()+"\n")
			return
		}
		text(w, http.StatusOK, "ok\n")
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, index) })
	return mux, nil
}

// index says what there is.
const index = `weir

/metrics  counters for Prometheus
/healthz  200 ok while packets make progress, 503 and the cause otherwise
`

// text answers in plain text, whatever it looks like.
func text(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	io.WriteString(w, body)
}
