// static_test.cpp - the same header in C++, the same functions in one object.
#include "mha.h"

#include "reference.h"

#include <cstdio>
#include <thread>
#include <vector>

namespace
{

void in_threads(void *, aule_part part, void *job, uint64_t count)
{
    std::vector<std::thread> threads;
    const uint64_t each = (count + 2) / 3;
    for (uint64_t first = 0; first < count; first += each)
        threads.emplace_back(part, job, first, first + each < count ? first + each : count);
    for (std::thread &t : threads) t.join();
}

} // namespace

int main()
{
    const int64_t H = 2, S = 70, T = 70, D = 128;
    std::vector<float> q(H * S * D), k(H * T * D), v(H * T * D), o(H * S * D), lse(H * S);
    reference_fill(q.data(), q.size(), 4);
    reference_fill(k.data(), k.size(), 5);
    reference_fill(v.data(), v.size(), 6);
    mha_forward_args a = {};
    a.struct_size = sizeof a;
    a.dtype = MHA_F32;
    a.B = 1, a.H = H, a.Hk = H, a.S = S, a.T = T, a.D = D, a.E = D;
    a.q = q.data(), a.k = k.data(), a.v = v.data(), a.o = o.data(), a.lse = lse.data();
    a.parallel = in_threads;
    const int status = mha_forward(&a);
    const Reference r = {H, H, S, T, D, q.data(), k.data(), v.data(), nullptr, T, 0, 0};
    const double error = reference_error(&r, o.data(), lse.data());
    std::printf("%s, error %g\n", mha_message(status), error);
    return status != 0 || !(error < 2e-6);
}
