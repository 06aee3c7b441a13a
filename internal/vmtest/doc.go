// Package vmtest boots Linux under QEMU with emulated NICs, so that weir runs on the drivers of real ones.
package vmtest
