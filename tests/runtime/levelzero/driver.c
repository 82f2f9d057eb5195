/* driver.c - the mock as a driver behind the real loader, which is told of it by ZE_ENABLE_ALT_DRIVERS: the loader asks for tables of
 * functions (tables.def). What nobody calls is left out; the loader wants each of these tables to be there. */
#include "inside.h"

#include <string.h>

typedef void (*Function)(void);
static const struct {
    const char *table;
    int place;
    Function function;
} rows[] = {
#define IN(table, place, field, function) {#table, place, (Function)(function)},
#include "tables.def"
};

static ze_result_t fill(const char *table, Function *functions)
{
    if (!functions) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++)
        if (strcmp(rows[n].table, table) == 0) functions[rows[n].place] = rows[n].function;
    return ZE_RESULT_SUCCESS;
}

#define TABLE(name, table)                                                                         \
    MOCK_API ze_result_t name(uint32_t version, Function *functions);                              \
    ze_result_t name(uint32_t version, Function *functions)                                        \
    {                                                                                              \
        (void)version;                                                                             \
        return fill(#table, functions);                                                            \
    }
#define EMPTY(name) TABLE(name, none)

// clang-format off
TABLE(zeGetGlobalProcAddrTable, global) TABLE(zeGetDriverProcAddrTable, driver) TABLE(zeGetDeviceProcAddrTable, device)
TABLE(zeGetContextProcAddrTable, context) TABLE(zeGetCommandQueueProcAddrTable, command_queue)
TABLE(zeGetCommandListProcAddrTable, command_list) TABLE(zeGetEventPoolProcAddrTable, event_pool) TABLE(zeGetEventProcAddrTable, event)
TABLE(zeGetModuleProcAddrTable, module) TABLE(zeGetModuleBuildLogProcAddrTable, module_build_log)
TABLE(zeGetKernelProcAddrTable, kernel) TABLE(zeGetMemProcAddrTable, mem)

EMPTY(zeGetDeviceExpProcAddrTable) EMPTY(zeGetEventExpProcAddrTable) EMPTY(zeGetFabricEdgeExpProcAddrTable)
EMPTY(zeGetFabricVertexExpProcAddrTable) EMPTY(zeGetFenceProcAddrTable) EMPTY(zeGetImageExpProcAddrTable) EMPTY(zeGetImageProcAddrTable)
EMPTY(zeGetKernelExpProcAddrTable) EMPTY(zeGetPhysicalMemProcAddrTable) EMPTY(zeGetSamplerProcAddrTable) EMPTY(zeGetVirtualMemProcAddrTable)
EMPTY(zesGetDeviceProcAddrTable) EMPTY(zesGetDiagnosticsProcAddrTable) EMPTY(zesGetDriverProcAddrTable) EMPTY(zesGetEngineProcAddrTable)
EMPTY(zesGetFabricPortProcAddrTable) EMPTY(zesGetFanProcAddrTable) EMPTY(zesGetFirmwareProcAddrTable) EMPTY(zesGetFrequencyProcAddrTable)
EMPTY(zesGetLedProcAddrTable) EMPTY(zesGetMemoryProcAddrTable) EMPTY(zesGetPerformanceFactorProcAddrTable) EMPTY(zesGetPowerProcAddrTable)
EMPTY(zesGetPsuProcAddrTable) EMPTY(zesGetRasProcAddrTable) EMPTY(zesGetSchedulerProcAddrTable) EMPTY(zesGetStandbyProcAddrTable)
EMPTY(zesGetTemperatureProcAddrTable)
EMPTY(zetGetCommandListProcAddrTable) EMPTY(zetGetContextProcAddrTable) EMPTY(zetGetDebugProcAddrTable) EMPTY(zetGetDeviceProcAddrTable)
EMPTY(zetGetKernelProcAddrTable) EMPTY(zetGetMetricGroupExpProcAddrTable) EMPTY(zetGetMetricGroupProcAddrTable)
EMPTY(zetGetMetricProcAddrTable) EMPTY(zetGetMetricQueryPoolProcAddrTable) EMPTY(zetGetMetricQueryProcAddrTable)
EMPTY(zetGetMetricStreamerProcAddrTable) EMPTY(zetGetModuleProcAddrTable) EMPTY(zetGetTracerExpProcAddrTable)
    // clang-format on
