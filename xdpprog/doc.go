// Package xdpprog is the door of weir: the receive program that decides, before any work goes into a frame, whether it belongs to the
// kernel, is refused, or goes to the queue's AF_XDP socket.
package xdpprog
