/* lld_bridge.cpp - lld behind a C function: it has no C API, and this is all the C++ that linking in the process needs.
 * lld keeps its state in variables of the process, so one link runs at a time: a mutex of the process guards it. After a
 * crash lld says that it must not run again; every later link is then refused. */
#include "lld_bridge.h"

#include <lld/Common/Driver.h>
#include <llvm/Support/raw_ostream.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

LLD_HAS_DRIVER(elf)

extern "C" int lld_link_elf(int count, const char *const *arguments, char **message)
{
    static std::mutex one_at_a_time;
    static bool broken = false;
    const std::lock_guard<std::mutex> guard(one_at_a_time);
    std::string text;
    int code = 1;
    if (broken) {
        text = "an earlier link crashed";
    } else {
        llvm::raw_string_ostream stream(text);
        const llvm::ArrayRef<const char *> list(const_cast<const char **>(arguments),
                                                static_cast<size_t>(count));
        const lld::Result result =
            lld::lldMain(list, llvm::nulls(), stream, {{lld::Gnu, &lld::elf::link}});
        code = result.retCode;
        broken = !result.canRunAgain;
    }
    *message = text.empty() ? nullptr : strdup(text.c_str());
    return code;
}
