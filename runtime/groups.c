/* groups.c - see key_pages.h: neighbouring sequences that share their first keys. Kernels read them by the table's line of the first one, so
 * what is said of pages that differ would be wrong without a word. */
#include "key_pages.h"

/* A call's lists of groups. */
typedef struct Groups {
    const aule_plan *plan;
    const AuKeyPages *pages;
    const aule_address *at;
    uint32_t groups, shared, lengths; /* tensors */
    AuSink sink;
} Groups;

static const char *name(const Groups *g, uint32_t index)
{
    return rt_tensor(g->plan->attention, index)->name;
}

static const char *attention(const Groups *g) { return g->plan->attention->name; }

static int64_t at(const Groups *g, uint32_t index, int64_t n)
{
    return rt_i32_at(g->plan, index, &g->at[index], n, 0);
}

/* The sequence's row of the table, and its first entry there. */
static aule_status find(const Groups *g, int64_t b, int64_t *line, int64_t *first)
{
    const aule_status status = rt_line_of(g->plan, g->pages, g->at, b, line, g->sink);
    *first = !status && g->pages->starts >= 0 ? at(g, (uint32_t)g->pages->starts, *line) : 0;
    return status;
}

/* Sequence b has the pages of [leader]; one that is shorter than [keys] has its own. */
static aule_status check_pages(const Groups *g, int64_t leader, int64_t b, int64_t keys)
{
    const AuKeyPages *p = g->pages;
    const uint32_t table = (uint32_t)p->table;
    int64_t line, first, its_line, its_first;
    aule_status status = find(g, leader, &line, &first);
    if (!status) status = find(g, b, &its_line, &its_first);
    if (status || at(g, g->lengths, b) < keys) return status;
    for (int64_t n = 0; n * p->slots < keys; n++) {
        const int64_t page = rt_page_at(g->plan, p, &g->at[table], line, first + n),
                      its = rt_page_at(g->plan, p, &g->at[table], its_line, its_first + n);
        if (page != its)
            return rt_fail(g->sink, AULE_ERROR_TENSOR,
                           "%s: %s: page %lld of sequence %lld is %lld and of sequence %lld, whose "
                           "first %lld keys it shares, %lld",
                           attention(g), name(g, g->groups), (long long)n, (long long)b,
                           (long long)its, (long long)leader, (long long)keys, (long long)page);
    }
    return AULE_OK;
}

static aule_status check_group(const Groups *g, int64_t n)
{
    const int64_t leader = at(g, g->groups, n), end = at(g, g->groups, n + 1),
                  shared = at(g, g->shared, n), slots = g->pages->slots;
    if (shared < 0 || shared % slots)
        return rt_fail(g->sink, AULE_ERROR_TENSOR,
                       "%s: %s[%lld] is %lld, expected whole pages of %lld keys", attention(g),
                       name(g, g->shared), (long long)n, (long long)shared, (long long)slots);
    aule_status status = AULE_OK;
    if (end - leader < 2 || at(g, g->lengths, leader) < shared) return AULE_OK;
    for (int64_t b = leader + 1; b < end && !status; b++)
        status = check_pages(g, leader, b, shared);
    return status;
}

/* They begin with 0, do not decrease and end with all sequences. */
static aule_status check_borders(const Groups *g, int64_t groups, int64_t count)
{
    for (int64_t n = 0; n <= groups; n++) {
        const int64_t border = at(g, g->groups, n), before = n ? at(g, g->groups, n - 1) : 0;
        if ((!n && border) || border < before || border > count || (n == groups && border != count))
            return rt_fail(g->sink, AULE_ERROR_TENSOR,
                           "%s: %s[%lld] is %lld, expected borders from 0 up to %lld sequences",
                           attention(g), name(g, g->groups), (long long)n, (long long)border,
                           (long long)count);
    }
    return AULE_OK;
}

aule_status rt_check_groups(const aule_plan *plan, const AuKeyPages *p, const aule_address *at,
                            int64_t count, AuSink sink)
{
    const aule_attention_v1 *a = plan->attention;
    const int32_t groups = rt_list_of(a, AULE_TENSOR_GROUPS, 1),
                  shared = rt_list_of(a, AULE_TENSOR_SHARED, 1),
                  lengths = rt_list_of(a, AULE_TENSOR_LENGTHS, 1);
    if (groups < 0 || shared < 0 || lengths < 0 || p->table < 0 || !plan->bound.tensors[groups] ||
        !plan->bound.tensors[shared])
        return AULE_OK;
    const Groups g = {plan, p, at, (uint32_t)groups, (uint32_t)shared, (uint32_t)lengths, sink};
    const int64_t all = rt_bound_extent(plan, (uint32_t)shared, 0);
    aule_status status = check_borders(&g, all, count);
    for (int64_t n = 0; n < all && !status; n++) status = check_group(&g, n);
    return status;
}
