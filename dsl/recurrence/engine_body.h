/* engine_body.h - between arrays of f64 and those of the type computed in. Included once for each type of numbers. */
/* NAME(x)(..) is a call, which the formatter takes for a cast. */
// clang-format off

static REAL *NAME(converted)(const double *from, int64_t count, AuArena *m)
{
    REAL *to = from ? AU_NEW_ARRAY(m, REAL, count + 1) : NULL;
    for (int64_t n = 0; n < count && from; n++) to[n] = (REAL)from[n];
    return to;
}

static void NAME(back)(double *to, const REAL *from, int64_t count)
{
    for (int64_t n = 0; n < count && to; n++) to[n] = (double)from[n];
}

static NAME(Rows) NAME(rows_of)(const AuRows *r, AuArena *m)
{
    return (NAME(Rows)){.T = r->T,
                        .K = r->K,
                        .V = r->V,
                        .G = r->G,
                        .feedback = r->feedback,
                        .before = r->before,
                        .q = NAME(converted)(r->q, r->T * r->K, m),
                        .k = NAME(converted)(r->k, r->T * r->K, m),
                        .v = NAME(converted)(r->v, r->T * r->V, m),
                        .g = NAME(converted)(r->g, r->T * r->G, m),
                        .e = NAME(converted)(r->e, r->T, m),
                        .x = NAME(converted)(r->x, r->T * r->K, m),
                        .b = NAME(converted)(r->b, r->T * r->K, m)};
}

static void NAME(forward)(const AuRows *rows, const AuEngine *how, double *state, double *o,
                          AuArena *m)
{
    const int64_t T = rows->T, K = rows->K, V = rows->V;
    const NAME(Rows) r = NAME(rows_of)(rows, m);
    REAL *s = NAME(converted)(state, K * V, m), *out = AU_NEW_ARRAY(m, REAL, T * V + 1);
    if (how->chunk)
        NAME(chunks_forward)(&r, how, s, out, NULL, m);
    else
        NAME(steps_forward)(&r, s, out, NULL, m);
    NAME(back)(state, s, K * V);
    NAME(back)(o, out, T * V);
}

static void NAME(backward)(const AuRows *rows, const AuEngine *how, const double *state,
                           const double *dout, double *dstate, AuRows *d, AuArena *m)
{
    const int64_t T = rows->T, K = rows->K, V = rows->V;
    const NAME(Rows) r = NAME(rows_of)(rows, m);
    AuRows zeros = *d;
    const double *zero = AU_NEW_ARRAY(m, double, T *(K > V ? K : V) + 1);
    double **const fields[] = {&zeros.q, &zeros.k, &zeros.v, &zeros.g,
                               &zeros.e, &zeros.x, &zeros.b};
    for (size_t n = 0; n < sizeof fields / sizeof *fields; n++)
        if (*fields[n]) *fields[n] = (double *)(uintptr_t)zero;
    NAME(Rows) out = NAME(rows_of)(&zeros, m);
    REAL *s = NAME(converted)(state, K * V, m), *ds = NAME(converted)(dstate, K * V, m);
    REAL *given = NAME(converted)(dout, T * V, m);
    if (how->chunk)
        NAME(chunks_backward)(&r, how, s, given, ds, &out, m);
    else
        NAME(steps_backward)(&r, s, given, ds, &out, m);
    NAME(back)(dstate, ds, K * V);
    NAME(back)(d->q, out.q, T * K), NAME(back)(d->k, out.k, T * K);
    NAME(back)(d->v, out.v, T * V), NAME(back)(d->g, out.g, T * r.G);
    NAME(back)(d->e, out.e, T);
    NAME(back)(d->x, out.x, T * K), NAME(back)(d->b, out.b, T * K);
}
// clang-format on
