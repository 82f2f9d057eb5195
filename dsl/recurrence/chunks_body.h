/* chunks_body.h - the chunked form: a chunk, its adjoint, and sequences of chunks. Included once for each type of
 * numbers (steps_body.h). States are recomputed in the backward: one a chunk. No derivative of the inverse is formed:
 * the equations that it solves are differentiated. */
/* NAME(x)(..) is a call, which the formatter takes for a cast. */
// clang-format off

static void NAME(prepare)(NAME(Chunk) *c)
{
    const NAME(Rows) *r = c->r;
    NAME(sum_decays)(c);
    c->q = (NAME(Reader)){r->q, NULL, r->before ? AU_READS_BEFORE : AU_READS_AFTER};
    c->Aqk = NAME(weights)(c, c->q, r->k);
    if (r->feedback == AU_FEEDBACK_NONE) return;
    const bool key = r->feedback == AU_FEEDBACK_KEY;
    c->x = key ? (NAME(Reader)){r->k, r->e, AU_READS_BETWEEN}
               : (NAME(Reader)){r->x, NULL, AU_READS_BEFORE};
    c->Axk = NAME(weights)(c, c->x, r->k);
    if (!key) {
        c->Aqb = NAME(weights)(c, c->q, r->b);
        c->Axb = NAME(weights)(c, c->x, r->b);
    }
    c->inverse = NAME(inverse)(c, c->x, key ? c->Axk : c->Axb);
}

/* out[C, V] += what a reader reads of the state before the chunk */
static void NAME(read_state)(const NAME(Chunk) *c, NAME(Reader) r, const REAL *state, REAL *out)
{
    const int64_t C = c->r->T, K = c->r->K, V = c->r->V;
    const int32_t bits = c->how->operand;
    if (c->r->G > 1) {
        NAME(multiply)(out, C, K, V, NAME(plain)(NAME(towards_start)(c, r), K, bits),
         NAME(plain)(state, V, bits));
        return;
    }
    REAL *raw = NAME(room)(c, C, V);
    NAME(multiply)(raw, C, K, V, NAME(plain)(r.rows, K, bits), NAME(plain)(state, V, bits));
    for (int64_t i = 0; i < C; i++)
        for (int64_t e = 0; e < V; e++)
            out[i * V + e] += NAME(span)(c, NAME(at)(r, i), 0, 0) * raw[i * V + e];
}

/* What k and b write. */
static void NAME(solve)(NAME(Chunk) *c, const REAL *state)
{
    const NAME(Rows) *r = c->r;
    const int64_t C = r->T, V = r->V;
    REAL *right = NAME(room)(c, C, V), *solved = NAME(room)(c, C, V);
    c->u = r->v;
    if (r->feedback == AU_FEEDBACK_NONE) return;
    c->fed = NAME(room)(c, C, V);
    NAME(read_state)(c, c->x, state, c->fed);
    for (int64_t i = 0; i < C; i++)
        for (int64_t e = 0; e < V; e++) {
            const int64_t n = i * V + e;
            right[n] = r->feedback == AU_FEEDBACK_KEY ? r->v[n] + NAME(factor)(c->x, i) * c->fed[n]
                                                      : c->fed[n];
        }
    if (r->feedback == AU_FEEDBACK_OWN)
        NAME(multiply)(right, C, C, V, NAME(plain)(c->Axk, C, c->how->operand),
     NAME(plain)(r->v, V, c->how->operand));
    NAME(multiply)(solved, C, C, V, NAME(plain)(c->inverse, C, c->how->solve),
     NAME(plain)(right, V, c->how->operand));
    if (r->feedback == AU_FEEDBACK_KEY)
        c->u = solved;
    else
        c->p = solved;
}

static void NAME(chunk_forward)(NAME(Chunk) *c, REAL *state, REAL *o)
{
    const NAME(Rows) *r = c->r;
    const int64_t C = r->T, K = r->K, V = r->V;
    const int32_t bits = c->how->operand, values = c->how->values;
    NAME(prepare)(c);
    NAME(solve)(c, state);
    if (o) {
        NAME(read_state)(c, c->q, state, o);
        NAME(multiply)(o, C, C, V, NAME(plain)(c->Aqk, C, bits), NAME(plain)(c->u, V, values));
        if (c->p)
            NAME(multiply)(o, C, C, V, NAME(plain)(c->Aqb, C, bits), NAME(plain)(c->p, V, values));
    }
    for (int64_t n = 0; n < K; n++)
        for (int64_t e = 0; e < V && r->G; e++) state[n * V + e] *= NAME(span)(c, C, 0, n);
    NAME(multiply)(state, K, C, V, NAME(turned)(NAME(towards_end)(c, r->k), K, bits),
     NAME(plain)(c->u, V, values));
    if (c->p)
        NAME(multiply)(state, K, C, V, NAME(turned)(NAME(towards_end)(c, r->b), K, bits),
     NAME(plain)(c->p, V, values));
}

/* ---- the adjoint of a chunk */

/* What reaches a border of the chunk goes to rows, and to the log decays between: of readers those before their place, of
 * writers those behind. border[C, K] has the rows' gradient. */
static void NAME(reader_border)(const NAME(Chunk) *c, NAME(Reader) r, const REAL *border,
                                NAME(Into) to)
{
    const int64_t C = c->r->T, K = c->r->K, G = c->r->G;
    for (int64_t i = 0; i < C; i++)
        for (int64_t n = 0; n < K; n++) {
            const REAL d =
                NAME(factor)(r, i) * border[i * K + n] * NAME(span)(c, NAME(at)(r, i), 0, n);
            to.reader[i * K + n] += d;
            for (int64_t t = 0; t < NAME(at)(r, i) && t < C && G; t++)
                to.g[t * G + (G > 1 ? n : 0)] += d * r.rows[i * K + n];
        }
}

static void NAME(writer_border)(const NAME(Chunk) *c, const REAL *w, const REAL *border,
                                NAME(Into) to)
{
    const int64_t C = c->r->T, K = c->r->K, G = c->r->G;
    for (int64_t j = 0; j < C; j++)
        for (int64_t n = 0; n < K; n++) {
            const REAL d = border[j * K + n] * NAME(span)(c, C, j + 1, n);
            to.writer[j * K + n] += d;
            for (int64_t t = j + 1; t < C && G; t++)
                to.g[t * G + (G > 1 ? n : 0)] += d * w[j * K + n];
        }
}

/* The state that passes through the chunk: its log decays, then its gradient. */
static void NAME(state_back)(const NAME(Chunk) *c, const REAL *state, REAL *ds, REAL *g)
{
    const int64_t C = c->r->T, K = c->r->K, V = c->r->V, G = c->r->G;
    for (int64_t n = 0; n < K && G; n++) {
        const REAL whole = NAME(span)(c, C, 0, n);
        const REAL along = whole * NAME(dot)(state + n * V, ds + n * V, V);
        for (int64_t t = 0; t < C; t++) g[t * G + (G > 1 ? n : 0)] += along;
        for (int64_t e = 0; e < V; e++) ds[n * V + e] *= whole;
    }
}

/* A reader's gradient [C, V] through what it read of the state. */
static void NAME(read_back)(const NAME(Chunk) *c, NAME(Reader) r, const REAL *given,
                            const REAL *state, REAL *ds, NAME(Into) to)
{
    const int64_t C = c->r->T, K = c->r->K, V = c->r->V;
    const int32_t bits = c->how->operand;
    REAL *border = NAME(room)(c, C, K), *scaled = NAME(room)(c, C, V);
    for (int64_t i = 0; i < C; i++)
        for (int64_t e = 0; e < V; e++) scaled[i * V + e] = NAME(factor)(r, i) * given[i * V + e];
    NAME(multiply)(border, C, V, K, NAME(plain)(given, V, bits), NAME(turned)(state, V, bits));
    NAME(reader_border)(c, r, border, to);
    NAME(multiply)(ds, K, C, V, NAME(turned)(NAME(towards_start)(c, r), K, bits),
                   NAME(plain)(scaled, V, bits));
}

/* A(r, w) met [values]: its gradient is given values', of rows by the factor; returned without it. */
static REAL *NAME(product_back)(const NAME(Chunk) *c, NAME(Reader) r, const REAL *w,
                                const REAL *given, const REAL *values, const REAL *A, NAME(Into) to)
{
    const int64_t C = c->r->T, V = c->r->V;
    const int32_t bits = c->how->operand;
    REAL *dA = NAME(room)(c, C, C), *scaled = NAME(room)(c, C, C);
    NAME(multiply)(dA, C, V, C, NAME(plain)(given, V, bits), NAME(turned)(values, V, bits));
    for (int64_t i = 0; i < C; i++)
        for (int64_t j = 0; j < C; j++) {
            if (!NAME(sees)(r, i, j)) dA[i * C + j] = 0;
            scaled[i * C + j] = NAME(factor)(r, i) * dA[i * C + j];
        }
    NAME(weights_back)(c, r, w, scaled, A, to);
    return dA;
}

/* Into dk (and db): what they wrote into the state behind the chunk. */
static void NAME(write_back)(const NAME(Chunk) *c, const REAL *w, const REAL *values,
                             const REAL *dlast, NAME(Into) to)
{
    const int64_t C = c->r->T, K = c->r->K, V = c->r->V;
    const int32_t bits = c->how->operand;
    REAL *border = NAME(room)(c, C, K);
    NAME(multiply)(border, C, V, K, NAME(plain)(values, V, bits), NAME(turned)(dlast, V, bits));
    NAME(writer_border)(c, w, border, to);
}

/* The gradient of what a writer wrote: through the outputs and through the state behind the chunk. */
static REAL *NAME(values_back)(const NAME(Chunk) *c, const REAL *A, const REAL *w,
                               const REAL *dout, const REAL *dlast)
{
    const int64_t C = c->r->T, K = c->r->K, V = c->r->V;
    const int32_t bits = c->how->operand;
    REAL *du = NAME(room)(c, C, V);
    NAME(multiply)(du, C, C, V, NAME(turned)(A, C, bits), NAME(plain)(dout, V, bits));
    NAME(multiply)(du, C, K, V, NAME(plain)(NAME(towards_end)(c, w), K, bits),
                   NAME(plain)(dlast, V, bits));
    return du;
}

static void NAME(feedback_back)(NAME(Chunk) *c, const REAL *state, const REAL *dout,
                                const REAL *dlast, const REAL *du, REAL *ds, NAME(Rows) *d)
{
    const NAME(Rows) *r = c->r;
    const int64_t C = r->T, V = r->V;
    const bool key = r->feedback == AU_FEEDBACK_KEY;
    const int32_t bits = c->how->operand;
    const REAL *solved = key ? du : NAME(values_back)(c, c->Aqb, r->b, dout, dlast);
    REAL *y = NAME(room)(c, C, V);
    NAME(multiply)(y, C, C, V, NAME(turned)(c->inverse, C, c->how->solve),
                   NAME(plain)(solved, V, bits));
    const NAME(Into) into = {key ? d->k : d->x, d->k, d->g};
    const REAL *met = key ? c->u : r->v;
    const REAL *dA = NAME(product_back)(c, c->x, r->k, y, met, c->Axk, into);
    if (key) {
        memcpy(d->v, y, (size_t)(C * V) * sizeof *y);
        for (int64_t i = 0; i < C; i++)
            d->e[i] =
                NAME(dot)(y + i * V, c->fed + i * V, V) + NAME(dot)(dA + i * C, c->Axk + i * C, C);
    } else {
        const NAME(Into) own = {d->x, d->b, d->g}, out = {d->q, d->b, d->g};
        memcpy(d->v, du, (size_t)(C * V) * sizeof *du);
        NAME(multiply)(d->v, C, C, V, NAME(turned)(c->Axk, C, bits), NAME(plain)(y, V, bits));
        NAME(product_back)(c, c->q, r->b, dout, c->p, c->Aqb, out);
        NAME(product_back)(c, c->x, r->b, y, c->p, c->Axb, own);
        NAME(write_back)(c, r->b, c->p, dlast, own);
    }
    NAME(read_back)(c, c->x, y, state, ds, into);
}

/* d is all zeros. ds: of the state behind the chunk, then of [state]. */
static void NAME(chunk_backward)(NAME(Chunk) *c, const REAL *state, const REAL *dout, REAL *ds,
                                 NAME(Rows) *d)
{
    const NAME(Rows) *r = c->r;
    const int64_t C = r->T, K = r->K, V = r->V;
    const NAME(Into) into = {d->q, d->k, d->g};
    REAL *dlast = NAME(room)(c, K, V);
    memcpy(dlast, ds, (size_t)(K * V) * sizeof *ds);
    NAME(prepare)(c);
    NAME(solve)(c, state);
    const REAL *du = NAME(values_back)(c, c->Aqk, r->k, dout, dlast);
    NAME(state_back)(c, state, ds, d->g);
    NAME(read_back)(c, c->q, dout, state, ds, into);
    NAME(product_back)(c, c->q, r->k, dout, c->u, c->Aqk, into);
    NAME(write_back)(c, r->k, c->u, dlast, into);
    if (r->feedback == AU_FEEDBACK_NONE)
        memcpy(d->v, du, (size_t)(C * V) * sizeof *du);
    else
        NAME(feedback_back)(c, state, dout, dlast, du, ds, d);
}

/* ---- sequences */

static NAME(Rows) NAME(part)(const NAME(Rows) *r, int64_t first, int64_t count)
{
    NAME(Rows) out = *r;
    out.T = r->T - first < count ? r->T - first : count;
    out.q += first * r->K, out.k += first * r->K, out.v += first * r->V;
    if (r->g) out.g += first * r->G;
    if (r->e) out.e += first;
    if (r->x) out.x += first * r->K, out.b += first * r->K;
    return out;
}

/* states: [chunks, K, V], those before each chunk; NULL: not wanted. */
static void NAME(chunks_forward)(const NAME(Rows) *r, const AuEngine *how, REAL *state, REAL *o,
                                 REAL *states, AuArena *m)
{
    const int64_t cells = r->K * r->V;
    for (int64_t first = 0, n = 0; first < r->T; first += how->chunk, n++) {
        const NAME(Rows) rows = NAME(part)(r, first, how->chunk);
        NAME(Chunk) c = {.r = &rows, .how = how, .m = m};
        for (int64_t i = 0; i < cells && states; i++)
            states[n * cells + i] = NAME(rounded)(state[i], how->operand);
        NAME(chunk_forward)(&c, state, o ? o + first * r->V : NULL);
    }
}

static void NAME(chunks_backward)(const NAME(Rows) *r, const AuEngine *how, const REAL *state,
                                  const REAL *dout, REAL *ds, NAME(Rows) *d, AuArena *m)
{
    const int64_t cells = r->K * r->V, chunks = (r->T + how->chunk - 1) / how->chunk;
    REAL *states = AU_NEW_ARRAY(m, REAL, chunks * cells + 1), *last = AU_NEW_ARRAY(m, REAL, cells);
    memcpy(last, state, (size_t)cells * sizeof *last);
    NAME(chunks_forward)(r, how, last, NULL, states, m);
    for (int64_t n = chunks - 1; n >= 0; n--) {
        const NAME(Rows) rows = NAME(part)(r, n * how->chunk, how->chunk);
        NAME(Rows) drows = NAME(part)(d, n * how->chunk, how->chunk);
        NAME(Chunk) c = {.r = &rows, .how = how, .m = m};
        NAME(chunk_backward)(&c, states + n * cells, dout + n * how->chunk * r->V, ds, &drows);
    }
}
// clang-format on
