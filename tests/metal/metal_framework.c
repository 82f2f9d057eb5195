/* metal_framework.c - the double of the framework Metal itself: one function, the rest are messages (metal_double.c). */
#include "metal_double.h"

__attribute__((visibility("default"))) void *MTLCopyAllDevices(void);
void *MTLCopyAllDevices(void) { return metal_double_devices(); }
