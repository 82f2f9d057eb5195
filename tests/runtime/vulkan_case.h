/* vulkan_case.h - the sample's module for Vulkan, on the mock (vulkan_mock.h). */
#ifndef VULKAN_CASE_H
#define VULKAN_CASE_H

#include "case.h"
#include "vulkan_mock.h"

/* With modules for Vulkan instead of PTX. The mock knows kernels by their names, so that no code is needed. */
const aule_module_v1 *vulkan_case_module(void);

/* Of what the mock gave out. */
void expect_nothing_left(void);

/* Does a message say which call it was that failed? What the reasons of absent devices say in words is here. */
bool vulkan_case_tells(const char *message, const char *function);
/* Without these it works all the same; and what is given back waits in another way. */
bool vulkan_case_does_without(const char *function, aule_status status);

/* A folder of its own for what the driver made, which goes with the program; status of main. */
int vulkan_case_run(int (*run)(void));
const char *vulkan_case_folder(void);

#endif
