package queues

import "errors"

// Errors that say what was wrong with a request. When NewUMEM or Open returns one,
// nothing was changed.
var (
	ErrFrameSize = errors.New("frame size not supported")
	ErrNumFrames = errors.New("number of frames not possible")
	ErrRingSize  = errors.New("ring size is no power of two")
	ErrFillDepth = errors.New("fill depth not possible")
	ErrMode      = errors.New("mode not granted")
	ErrInUse     = errors.New("in use")
	ErrClosed    = errors.New("closed")
)
