/* functions.c - functions of a module beside its entry points: those that the device's compiler brings, and own ones that are called and not copied, since
 * hundreds of copies take compilers minutes. What they take is given by the types of their parameters. */
#include "emit.h"

enum { IMPORT = 1 /* Linkage Type */, DONT_INLINE = 2 /* Function Control */ };

static void head_of(SpvModule *m, SpvOwnFunction *f, const char *name, const SpvSignature *s,
                    uint32_t control)
{
    uint32_t types[1 + SPV_PARAMETERS] = {s->result};
    for (uint32_t n = 0; n < s->count; n++) types[1 + n] = s->parameters[n];
    const SpvId signature = spirv_type(m, SPV_TypeFunction, types, 1 + s->count);
    f->id = spirv_id(m);
    spirv_name(m, f->id, name);
    spirv_put(m, &f->head, SPV_Function, SPV_WORDS(s->result, f->id, control, signature));
    for (uint32_t n = 0; n < s->count; n++) {
        f->given[n] = spirv_id(m);
        spirv_put(m, &f->head, SPV_FunctionParameter, SPV_WORDS(s->parameters[n], f->given[n]));
    }
}

SpvId spirv_known_function(SpvModule *m, const char *name, const char *linked,
                           const SpvSignature *signature)
{
    const uint32_t import = IMPORT;
    SpvOwnFunction f = {.id = 0};
    head_of(m, &f, name, signature, 0);
    spirv_capability(m, SPV_CAP_Linkage);
    spirv_put_text(m, &m->sections[SPV_DECORATIONS], SPV_Decorate,
                   (uint32_t[]){f.id, SPV_IS_LinkageAttributes}, 2, linked, &import, 1);
    spirv_put(m, &f.head, SPV_FunctionEnd, NULL, 0);
    spirv_append(m, SPV_DECLARATIONS, &f.head);
    return f.id;
}

void spirv_begin_function(SpvModule *m, SpvOwnFunction *f, const char *name,
                          const SpvSignature *signature)
{
    *f = (SpvOwnFunction){.outside = m->f};
    head_of(m, f, name, signature, DONT_INLINE);
    m->f = &f->own;
    f->own.label = spirv_id(m);
    spirv_put(m, &f->head, SPV_Label, &f->own.label, 1);
}

SpvId spirv_end_function(SpvModule *m, SpvOwnFunction *f, SpvId result)
{
    spirv_do(m, SPV_ReturnValue, &result, 1);
    spirv_do(m, SPV_FunctionEnd, NULL, 0);
    m->f = f->outside;
    spirv_append(m, SPV_FUNCTIONS, &f->head);
    spirv_append(m, SPV_FUNCTIONS, &f->own.variables);
    spirv_append(m, SPV_FUNCTIONS, &f->own.body);
    return f->id;
}
