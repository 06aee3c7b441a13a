package xdpprog

// The compiler is pinned by version: another one produces other objects, and a test compares them byte for byte.

//go:generate go tool bpf2go -cc clang-14 -target bpfel -no-global-types rx bpf/weir_rx.c -- -mcpu=v3 -Wall -Wextra -Werror
//go:generate go tool bpf2go -cc clang-14 -target bpfel -no-global-types generator bpf/generator.c -- -mcpu=v3 -Wall -Wextra -Werror
//go:generate go tool bpf2go -cc clang-14 -target bpfel -no-global-types sink bpf/sink.c -- -mcpu=v3 -Wall -Wextra -Werror
