/* compiler.h - libaulec, where it is installed: the tool itself does not need it. */
#ifndef AU_TOOLS_COMPILER_H
#define AU_TOOLS_COMPILER_H

#include "aule/aulec.h"
#include "command.h"

typedef struct AuCompiler {
    void *library;
#define AU_COMPILER_CALLS(CALL)                                                                    \
    CALL(aulec_compile)                                                                            \
    CALL(aulec_result_data)                                                                        \
    CALL(aulec_result_length)                                                                      \
    CALL(aulec_result_diagnostics)                                                                 \
    CALL(aulec_result_diagnostic_count)                                                            \
    CALL(aulec_result_get_diagnostic)                                                              \
    CALL(aulec_result_free)                                                                        \
    CALL(aulec_best_arch)                                                                          \
    CALL(aulec_check)                                                                              \
    CALL(aulec_case_new)                                                                           \
    CALL(aulec_case_free)                                                                          \
    CALL(aulec_case_attention)                                                                     \
    CALL(aulec_case_widths)                                                                        \
    CALL(aulec_case_far_inputs)                                                                    \
    CALL(aulec_case_has_gradients)                                                                 \
    CALL(aulec_case_tensor_count)                                                                  \
    CALL(aulec_case_get_tensor)                                                                    \
    CALL(aulec_case_param_count)                                                                   \
    CALL(aulec_case_get_param)
#define CALL(name) __typeof__(&name) name;
    __extension__ AU_COMPILER_CALLS(CALL)
#undef CALL
} AuCompiler;

/* Looks in the folders of AULE_LIBRARY_PATH, beside this program, in ../lib, where a build folder and
 * where pip have it, and where the system keeps libraries; the first that is there must load. Returns 0,
 * or an exit status after a message that says where it looked. */
int compiler_open(AuCompiler *compiler);
void compiler_close(AuCompiler *compiler);

#endif
