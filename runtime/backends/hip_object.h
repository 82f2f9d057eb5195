/* hip_object.h - code objects of AMD's GPUs as bytes. */
#ifndef AU_RUNTIME_HIP_OBJECT_H
#define AU_RUNTIME_HIP_OBJECT_H

#include "backend.h"

/* Are all the bytes there that the ELF speaks of, and is it an AMD GPU's? [why]: what is wrong. True of what is no ELF. */
bool rt_hip_object_is_whole(const void *code, uint64_t bytes, AuText *why);

#endif
