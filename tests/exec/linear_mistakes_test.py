"""Planted mistakes: schedules of recurrences by matrix units with one line changed make kernels that `linear_test` finds wrong.

    linear_mistakes_test.py SOURCE BUILD [tenth|rows|few|further|lanes|back|wide|chunk|groups|gradients|append|stored|codes|matrices|texts]

The changed file is linked before the library that has the right one. tenth: every tenth of them; rows, few, wide, groups, gradients: those of packed rows, of
few queries that are packed or padded, of values that no warp holds, of keys that sequences share and of gradients of packed rows, which `ladder_test` finds; append: of new rows in caches, which `append_test` does; lanes: of few queries without matrix units; stored:
of codes that become elements in tiles; codes: of codes that become operands; matrices: of gradients by matrices that lie nobody knows how, which `matrices_test` finds; texts: none, but every text must be where the lists say.
"""
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import planted  # noqa: E402

# A part of the cases would not find what another part does.
WHOLE = {name: value for name, value in os.environ.items() if name != "AULE_TEST_PART"}

# Not among them: U as one number (`Ul` left out). Bounds of single elements, with a rounding of the operands' type for states, allow it.
# what, file of compiler/schedule, the text, what stands there instead
MISTAKES = [
    ("the chunk after the next one is brought", "linear_warps.c", 'if (two) lw_issue(w, "chunk + 1", warps', 'if (two) lw_issue(w, "chunk + 2", warps'),
    ("the state does not decay", "linear_warps.c", 'whole = of_sums = " * exp(total)"', 'whole = of_sums = ""'),
    ("what is read of the state has not decayed", "linear_warps_output.c", 'return " * exp(since)";', 'return "";'),
    ("a token does not read its own write", "linear_warps_output.c", '"j < %s" : "j <= %s", reader', '"j < %s" : "j < %s", reader'),
    ("a token reads what comes after it", "linear_warps_output.c", '"where(%s, score%s%s, 0.0)", sees', '"where(%s || j > 1, score%s%s, 0.0)", sees'),
    ("what keys read of the state has not decayed", "linear_warps_key.c", '"right * exp(of_token)"', '"right"'),
    ("blocks are solved without those before them", "linear_warps_inverse.c", 'tile_for_range(t, "before", "0", "n_block");', 'tile_for_range(t, "before", "0", "0");'),
    ("what solves a chunk meets it in two products, not three", "linear_warps_key.c", '{{"h", "h"}, {"h", "l"}, {"l", "h"}}', '{{"h", "h"}, {"h", "l"}, {"h", "l"}}'),
    ("numbers and inverses are those of the chunk before", "linear_warps_rows.c", '"max(min(chunk_brought,', '"max(min(chunk_brought - 1,'),
    ("queries and keys are those of the chunk before", "linear_warps_rows.c", '"%s[b, h, place_brought, self', '"%s[b, h, max(place_brought - 1, 0), self'),
    ("what keys erase of keys before has not decayed", "linear_warps_inverse.c", 'kept = " * exp(where(j < i, since - at_writer, -inf))"', 'kept = ""'),
    ("the first chunk of all is not made", "linear_warps_inverse.c", '"round * parts + part"', '"round * parts + part + 1"'),
    ("keys do not decay until the chunk's end", "linear_warps_vector.c", "exp2(row_total - row_sum)) -> K[", "exp2(row_sum - row_sum)) -> K["),
    ("pairs of another level count, too", "linear_warps_vector.c", "iota(q:16) / %d == iota(kv:16) / %d + 1", "iota(q:16) / %d != iota(kv:16) / %d + 2"),
    ("a token's pair with itself is left out", "linear_warps_vector.c", 'if (own) tile_set(t, "pairs", "%s", same);', "if (own && !same) return;"),
    ("channels of the state do not decay", "linear_warps.c", 'whole = of_sums = " * exp2(whole)";', 'whole = of_sums = "";'),
    ("segments begin without what was before them", "linear_warps_segments.c", "segment > 0 && segment <= last_segment", "segment < 0"),
    ("what a segment keeps has not decayed", "linear_warps_segments.c", '" * exp2(span)" : " * exp(span)"', '"" : ""'),
    ("constant decays of a segment are a chunk's", "linear_warps_segments.c", "f32(per_segment * %d) * rate", "f32(per_segment * 0 + %d) * rate"),
    ("with feedback a segment keeps all of the state", "linear_warps_segments.c", '"where(strip < %d, %s, 0.0)"', '"where(strip < %d + 100, %s, 0.0)"'),
    ("a segment's matrix is that of another", "linear_warps_segments.c", "(strip - %d) * %d + %s + iota", "(strip - %d) * %d + %s + 1 + iota"),
    ("packed sequences share their segments", "linear_warps_segments.c", "start / (per_segment * %d)", "start / (per_segment * %d * 1000)"),
    ("the last segment is not the one whose state goes out", "linear_warps.c", '"segment == last_segment"', '"segment == 0"'),
    ("T of the chunk behind does not decay", "linear_warps_carry.c", '"dstate * whole"', '"dstate * 1.0"'),
    ("queries reach T undecayed", "linear_warps_carry.c", 'kept = "exp(since_row)";', 'kept = "1.0";'),
    ("y is kept as if it reached T alone", "linear_warps_key_back.c", 'since = " * exp(of_solved)";', 'since = "";'),
    ("U kept for gradients has decayed", "linear_warps_key.c", 'if (*factor) tile_set(t, "solved"', 'if (*factor && !kept) tile_set(t, "solved"'),
    ("a chunk is looked for in the sequence before", "linear_warps_states.c", '"where(is_before, middle, n)"', '"where(is_before, max(middle - 1, 0), n)"'),
    ("keys get nothing of what later queries read", "linear_warps_apart.c", 'tile_text(t, "R[:, %s]", row)', 'tile_text(t, "Z[:, %s]", row)'),
    ("what keys write is not joined", "linear_warps_apart.c", '"dx + at_end -> Made', '"dx -> Made'),
    ("what passes a chunk is beside the diagonal", "linear_warps_apart.c", 'iota(d:%d) == iota(m:%d), through', 'iota(d:%d) + 1 == iota(m:%d), through'),
    ("keys as readers are some channels' alone", "linear_warps_apart.c", '"of_readers -> Erases[1 + %s, %s]", part', '"of_readers -> Erases[1 + %s * 0, %s]", part'),
    ("a decay does not count for its own token's reader", "linear_warps_channels.c", 'u > of_t" : "u >= of_t"', 'u > of_t" : "u > of_t"'),
    ("a decay counts for its own token's writer", "linear_warps_channels.c", '"u < of_t" : behind', '"u <= of_t" : behind'),
    ("what passes a chunk has not decayed a channel", "linear_warps_channels_strip.c", '"%s + exp2(total_w) * passed -> G', '"%s + passed -> G'),
    ("keys get T as if they were written last", "linear_warps_channels_strip.c", '"total_r - %s"', '"0.0 * total_r - 0.0 * %s"'),
    ("near pairs of all levels count at each", "linear_warps_channels.c", '(i & %d) != 0 && i / %d == j / %d + 1, dscore', '(i & %d) != 99 && i / %d != j / %d + 99 && j < i, dscore'),
    ("far pairs meet their own half", "linear_warps_channels_levels.c", "other = half ^ 1", "other = half"),
    ("pairs of a strength forget it", "linear_warps_channels.c", '"dscore * strength_of_pair"', '"dscore * fill(strength_of_pair, 1.0)"'),
    ("a query gets nothing of its own key", "linear_warps_channels_strip.c", '"%s + %s * f32(%s)", dq', '"%s + 0.0 * %s * f32(%s)", dq'),
    ("a bonus gets nothing of its token's query", "linear_warps_channels_strip.c", '"own_of_token * f32(%s) * f32(%s)"', '"own_of_token * fill(f32(%s), 1.0) * f32(%s)"'),
    ("later keys give nothing to those near before them", "linear_warps_channels_levels.c", 'tile_product(t, "dm", atom, TILE_ADD, keys, tile_text(t, "%s as [kv, q]", near));', 'tile_product(t, "dm", atom, TILE_ADD, keys, near);'),
    ("later keys meet keys far before as queries", "linear_warps_channels_levels.c", 'channels_numbered(b, "keys", from)', 'channels_numbered(b, "rows", from)'),
    ("keys as readers have S undecayed", "linear_warps_channels_strip.c", '"%s * exp2(%s)", dx, channels_on_axis(b, "sum", "q", g)', '"%s * exp2(0.0 * %s)", dx, channels_on_axis(b, "sum", "q", g)'),
    ("decays do not count what keys read of their chunk", "linear_warps_channels_levels.c", '"p + f32(%s) * of_key"', '"p + 0.0 * f32(%s) * of_key"'),
    ("decays do not count what keys read of the start", "linear_warps_channels_strip.c", '"p + f32(%s) * %s"', '"p + 0.0 * f32(%s) * %s"'),
    ("erasing has twice what keys read of the start", "linear_warps_channels_strip.c", '"of_reader -> Erases[%d + %s, %s] as [q]"', '"2.0 * of_reader -> Erases[%d + %s, %s] as [q]"'),
    ("erasing gets nothing of pairs", "linear_warps_channels.c", "dscore * f32(key_pair), 0.0), kv)", "dscore * 0.0 * f32(key_pair), 0.0), kv)"),
    ("pairs of keys forget their strength", "linear_warps_channels.c", '"dscore * -erase"', '"dscore * fill(erase, -1.0)"'),
    ("keys kept for gradients of erasing have its strength", "linear_warps_vector.c", "if (w->keeps_key_pairs)\n", 'if (w->keeps_key_pairs) tile_set(t, pairs, "-erase * %s", pairs);\n        if (w->keeps_key_pairs)\n'),
    ("keys as readers reach T as they are written", "linear_warps_own.c", 'w->has_decayed ? "Ks" : "K"', 'w->has_decayed ? "K" : "K"'),
    ("keys as readers are made for chains undecayed", "linear_warps_vector.c", "exp2(row_sum)) -> readers", "exp2(0.0 * row_sum)) -> readers"),
    ("pairs of keys are those of queries", "linear_warps_inverse.c", "lw_vector_make_keys(w);", ""),
    ("T of the chunk behind does not decay a channel", "linear_warps_carry.c", '"dstate * exp2(whole)"', '"dstate * exp2(0.0 * whole)"'),
    ("queries reach T as keys would", "linear_warps_vector.c", '"%s(f32(row_q) * exp2(%s)) -> Q[%s%s, :] as [kv, d]", w->l.x.operand,\n               reads(w)', '"%s(f32(row_q) * exp2(0.0 * %s)) -> Q[%s%s, :] as [kv, d]", w->l.x.operand,\n               reads(w)'),
    ("chains take the totals of the chunk before", "linear_warps_pairs.c", '"totals[b, h, place, %s +: %d]"', '"totals[b, h, max(place - 1, 0), %s +: %d]"'),
    ("pairs are those of the chunk before", "linear_warps_rows.c", 'kept_rows(w, pairs->tensor)', 'tile_part(w->l.x.t, "%s[b, h, max(place_brought - 1, 0), self * %d +: %d from 0 to rows_brought, :]", pairs->tensor, w->share, w->share)'),
    ("keys made for chains have not decayed", "linear_warps_vector.c", "exp2(row_total - row_sum)%s) -> keys[", "exp2(row_sum - row_sum)%s) -> keys["),
    ("queries made for chains have not decayed", "linear_warps_vector.c", "%s(f32(row_q) * exp2(%s)) -> queries", "%s(f32(row_q) * exp2(0.0 * %s)) -> queries"),
    ("what lies behind the sequence decays it", "linear_warps_vector.c", '"where(first + iota(kv:%d) < end%s, log_decay', '"where(first + iota(kv:%d) < end + 64%s, log_decay'),
    ("what reads before its token has decayed by it", "linear_warps_own.c", "row_before - row_border, row_border", "row_sum - row_border, row_border"),
    ("queries have not decayed by their token", "linear_warps_own.c", '"f32(row_q) * exp2(row_sum - row_before)"', '"f32(row_q)"'),
    ("a query does not see what its token feeds back", "linear_warps_own.c", '"M", "N", "Pb", "OwnB"', '"M", "N", "Pb", NULL'),
    ("what is fed back reads its own token", "linear_warps_own.c", '"N", "M", "Px", NULL', '"N", "M", "Px", "Own"'),
    ("strengths of writes do not reach what reads for feedback", "linear_warps_own.c", '"Px", NULL, true', '"Px", NULL, false'),
    ("strengths of writes do not reach the state", "linear_warps_own.c", '"kept_row * row_strength"', '"kept_row"'),
    ("what feedback writes does not decay until the chunk's end", "linear_warps_own.c", 'tile_store(t, "%s(f32(row_b) * kept_row)', 'tile_store(t, "%s(f32(row_b) * 1.0)'),
    ("what feedback reads of the state has not decayed", "linear_warps_own.c", 'tile_store(t, "%s(f32(row_x) * kept_row) -> %s"', 'tile_store(t, "%s(f32(row_x) * 1.0) -> %s"'),
    ("feedback reads nothing of its chunk's keys", "linear_warps_own.c", '"Px[:, :]"', '"Pb[:, :]"'),
    ("the state gets keys once more for what is fed back", "linear_warps_own.c", '"B[%s:, %s +: %d]"', '"K[%s:, %s +: %d]"'),
    ("b gets T by what y is", "linear_warps_own_back.c", '"Uh[%s, %s] as [e, q]"', '"Yh[%s, %s] as [e, q]"'),
    ("queries get nothing of near rows that write", "linear_warps_own_back.c", 'n ? "Zk" : "Rb", first', 'n ? "Zk" : "Zk", first'),
    ("x gets of near keys what queries get", "linear_warps_own_back.c", 'n ? "Rb" : "Zk", first', 'n ? "Rb" : "Rb", first'),
    ("far rows that write are as if read by queries", "linear_warps_own_back.c", 'reads ? "Rb" : "Zk", place', 'reads ? "Rb" : "Rb", place'),
    ("x gets of far keys what queries get", "linear_warps_own_back.c", 'reads ? "Zk" : "Rb", place', 'reads ? "Rb" : "Rb", place'),
    ("b gets nothing of its token's query", "linear_warps_own_back.c", '"%s + own_of_writer * f32(%s)", db', '"%s + 0.0 * own_of_writer * f32(%s)", db'),
    ("a decay gets nothing of its token's query", "linear_warps_own_back.c", 'channels_add_rates(b, g, "Same[:, :]");', ''),
    ("queries get pairs that have not decayed by their token", "linear_warps_own_back.c", '"%s * exp2(%s - %s) + own_of_token', '"%s * exp2(0.0 * (%s - %s)) + own_of_token'),
    ("queries of gradients have not decayed by their token", "linear_warps_own_back.c", '"f32(%s) * exp2(%s - %s)"', '"f32(%s) * exp2(0.0 * (%s - %s))"'),
    ("decays do not count what x reads of the start", "linear_warps_own_back.c", '"p + f32(%s) * %s"', '"p + 0.0 * f32(%s) * %s"'),
    ("decays do not count near rows of feedback", "linear_warps_own_back.c", '"mixed_r * dm + other_r * dn"', '"mixed_r * dm + 0.0 * other_r * dn"'),
    ("decays do not count far rows of feedback", "linear_warps_channels_levels.c", '" + other_r * dn"', '" + 0.0 * other_r * dn"'),
    ("near levels are all of halves of one token", "linear_warps_own_back.c", '"2 * near_half"', '"near_half"'),
    ("strengths of writes belong to what is fed back", "linear_warps_channels.c", 'channels_is_weighed(b) && kind->of_values', 'channels_is_weighed(b)'),
    ("values get nothing of what reads them for feedback", "linear_warps_rows_back.c", '"Px[:, %s +: %d]"', '"P[:, %s +: %d]"'),
    ("chains take pairs of others", "linear_warps_own.c", 'lw_kept((int)(pairs - others))->tensor', 'lw_kept(LINEAR_KEPT_PAIRS)->tensor'),
    ("values are read for feedback without their strength", "linear_warps_own.c", '"%s(f32(values) * of_values)"', '"%s(f32(values) * fill(of_values, 1.0))"'),
    ("T gets y by rows that write", "linear_warps_own.c", 'lw_is_own(w) ? "X" :', 'lw_is_own(w) ? "B" :'),
    ("y is what reads T, not what writes", "linear_warps_own.c", 'lw_is_own(w) ? "B" : "K"', 'lw_is_own(w) ? "X" : "K"'),
    ("a token's decay gets twice what channels do", "linear_warps_channels.c", '"reduce_sum(row_dx, d)"', '"2.0 * reduce_sum(row_dx, d)"'),
    ("keys are as values take them before all have met them", "linear_warps_channels_strip.c", 'channels_own_queries(b, g);\n', 'channels_own_queries(b, g);\n    keep_keys(b, s, g);\n'),
    ("a segment's matrix of feedback has values in it", "linear_warps_segments.c", '"strip < %d", value', '"strip < %d + 100", value'),
    ("a head's decay counts twice", "linear_warps_vector.c", '"fill(raw_G, rate)"', '"fill(raw_G, 2.0 * rate)"'),
    ("the skip is of the first rows of a chunk", "linear_warps.c", 'lw_row(w), LINEAR_ROWS, lw_out_column(w), w->out_columns);\n    else', '"0", LINEAR_ROWS, lw_out_column(w), w->out_columns);\n    else'),
    ("gradients are those of the output, not of what is read", "linear_warps_carry.c", '? "given" : "do"', '? "do" : "do"'),
    ("the norm's gradient is not that of a quotient", "linear_warps_given.c", '"-reduce_sum(change * kept_out, e) / norms"', '"-reduce_sum(change * kept_out, e)"'),
    ("sums are those before the chunk before", "linear_warps_given.c", '"sum_states[b, h, place, :]"', '"sum_states[b, h, max(place - 1, 0), :]"'),
    ("the skip gets no gradient where it is gated", "linear_warps_given.c", "if (skips) lw_gradient(b,", "if (skips && !mod) lw_gradient(b,"),
    ("what skips is not part of what is gated", "linear_warps_given.c", 'skips ? " + skipped" : ""', 'skips ? "" : ""'),
    ("pairs forget their strengths where outputs are made again", "linear_warps_output.c", "f32(weighed) * strength_of_weighed", "f32(weighed) * fill(strength_of_weighed, 1.0)"),
    ("rows have the sum of others", "linear_warps_given.c", '"Read[%s]", rows', '"Read[0 +: %d]", (rows = "", lw_slot_rows(&b->w))'),
    ("pairs get nothing of the sum", "linear_warps_sums.c", '"dscore + dsum_of_pair"', '"dscore + 0.0 * dsum_of_pair"'),
    ("keys get nothing of later sums", "linear_warps_sums.c", '"dx + tsums"', '"dx + 0.0 * tsums"'),
    ("queries get nothing of sums before", "linear_warps_sums.c", '"dx + dsum_of_row * sums_of_row"', '"dx + 0.0 * dsum_of_row * sums_of_row"'),
    ("a decay gets nothing of sums that pass", "linear_warps_sums.c", "reduce_sum(sums_of_state * dsum_state, d), 0.0)", "0.0 * reduce_sum(sums_of_state * dsum_state, d), 0.0)"),
    ("sums pass a chunk undecayed", "linear_warps_sums.c", '? " * whole" : ""', '? "" : ""'),
    ("sums get queries undecayed", "linear_warps_sums.c", '*since ? " * " : "", since);', '"", "");'),
    ("strengths get nothing of later sums", "linear_warps_sums.c", '"reduce_sum(f32(own_key) * tsums, d)%s"', '"0.0 * reduce_sum(f32(own_key) * tsums, d)%s"'),
    ("strengths get nothing of their chunk's sums", "linear_warps_sums.c", '"reduce_sum(score * dsum_of_pair, q)"', '"reduce_sum(0.0 * score * dsum_of_pair, q)"'),
    ("sums are kept where the next chunk's are", "linear_warps_sums.c", '"sum_state -> sum_states[b, h, place, %s', '"sum_state -> sum_states[b, h, place + 1, %s'),
    ("of two kernels none gives the states out", "linear_warps.c", "if (!w->keeps_states || w->in_two) store_states", "if (!w->keeps_states) store_states"),
    ("outputs of a chunk are gated as its first", "linear_warps_given.c", '"out_mod(finished, b, h, t, 0, c)"', '"out_mod(finished, b, h, first, 0, c)"'),
    ("pairs have their strengths twice in two kernels", "linear_warps_output.c", "if (!w->makes_given || w->in_two ||", "if (!w->makes_given ||"),
    ("the states kept are those of the chunk after", "linear_warps_states.c", '"row_kept -> %s[b, h, place, self * %d +: %d, vb * %d +: %d]', '"row_kept -> %s[b, h, max(place - 1, 0), self * %d +: %d, vb * %d +: %d]'),
]

ROWS = [
    ("values are those of the sequence before", "rows.c", 'lanes_row_start(x, side), rows', '(*lanes_row_start(x, side) ? tile_text(x->t, "0 * %s", lanes_row_start(x, side)) : ""), rows'),
    ("queries begin a row late", "key_layout.c", '"%s_start + %s from %s_start to %s_end", of, rows', '"%s_start + 1 + %s from %s_start to %s_end", of, rows'),
    ("values have no end", "lanes_rows.c", '? " from kv_start + k_low to kv_start + min(k_high, kv_length)"', '? ""'),
    ("items of sequences overlap", "work_list.c", '"q_end"', '"q_start"'),
    ("the last blocks have no item", "work_list.c", '"item - %s / %d - b"', '"item - %s / %d"'),
    ("rows of no sequence are left as they are", "key_layout.c", '"%smb * %d + %d > %s"', '"%smb * %d + 0 * %d > %s"'),
    ("pages have no end", "warps_pages.c", '"min(k_high, kv_length)"', '"2147483000"'),
    ("boxes of packed rows reach into the next sequence", "group_parts.c", 'if (!*limits && end) limits', 'if (!*limits && end && x->on_cpu) limits'),
    ("boxes begin with the first sequence", "group_parts.c", '"clamp(q_start + %s, 0, max(q_end, 1) - 1)"', '"clamp(0 * q_start + %s, 0, max(q_end, 1) - 1)"'),
    ("groups without rows store boxes", "group_parts.c", '"mb >= 0 && %s < q_length"', '"mb >= 0 && %s < q_length + 64"'),
    ("rows are seen by the item's place", "forward_parts.c", '"cdiv(q_length, %d) - 1 - turn"', '"cdiv(q_length, %d) - turn"'),
]

PAGES = [
    ("values behind the end are others'", "group_pages.c", '"min(k_high, kv_length)"', '"2147483000"'),
    ("boxes behind the end go on", "group_pages.c", '"key%u < paged_last"', '"key%u < paged_last + 4096"'),
    ("all boxes are of the first page", "group_pages.c", '"where(more && turned, entry + 1, entry)"', '"where(more && turned, entry + 0, entry)"'),
    ("pages end a box late", "group_pages.c", '"slot%u + %d >= page_rows"', '"slot%u + %d > page_rows"'),
    ("pages begin with the tile", "group_pages.c", '"tile_key - tile_entry * page_rows"', '"0 * (tile_key - tile_entry * page_rows)"'),
    ("values before a window are others'", "group_pages.c", '"slot%u + k_low - key%u"', '"slot%u + 0 * k_low - key%u"'),
]

LANES = [
    ("keys are read before they are there", "lanes_packed.c", 'tile_sync(t, "self");\n    tile_load(t, lanes_term_name(x, "key"', 'tile_load(t, lanes_term_name(x, "key"'),
    ("the next piece comes while this one is read", "lanes_packed.c", 'tile_sync(t, "self"); /* before', '/* before'),
    ("weights are read before they are there", "lanes_packed.c", 'weights(x));\n    tile_sync(t, "self");', 'weights(x));'),
    ("all pieces are the first one's channels", "lanes_packed.c", '{1, tile_text(t, "%s * %d", part, some)', '{1, tile_text(t, "0 * %s * %d", part, some)'),
    ("scores are added to the tile's before", "lanes_packed.c", '"fill(%s, 0.0)"', '"%s * 1.0"'),
    ("values are those of the tile's first keys", "lanes_packed.c", '"values_brought", tile_text(t, "turn_of_keys * %d", keys)', '"values_brought", tile_text(t, "0 * turn_of_keys * %d", keys)'),
    ("codes are of the first keys", "lanes_packed.c", '"n * %d + %s + iota(kv:%d)"', '"n * %d + 0 * (%s) + iota(kv:%d)"'),
    ("codes have the scales of the first channels", "lanes_packed.c", '"%s + iota(%s:%d)", of->first', '"0 * (%s) + iota(%s:%d)", of->first'),
    ("all cuts have the first one's values", "lanes_packed.c", "lanes_values_in_keys(x, of->at,", "lanes_values_in_keys(x, 0 * of->at,"),
    ("the first cut alone is scaled", "lanes_packed.c", "has_scale && n < x->p->e / cut(x->p)", "has_scale && n < 1"),
    ("cuts lie where the first one does", "warps_decode.c", "n, rows_of_part(x), n * width,", "n, rows_of_part(x), 0 * n * width,"),
    ("blocks have the first one's rows", "lanes_packed.c", 'warps_name_rows(x, tile_text(t, "mb * %d"', 'warps_name_rows(x, tile_text(t, "0 * mb * %d"'),
    ("sums keep the scale of codes", "lanes_packed.c", "lanes_scale_values_of(x, sums_called(x, n));", "(void)sums_called(x, n);"),
]

FEW = [
    ("queries are those of the first sequence", "warps_forward_tiles.c", '"q_start + i" : "i"', '"i" : "i"'),
    ("blocks have rows of one head alone", "warps_decode_parts.c", 'tile_text(x->t, "%s * group", lanes_query_end(x))', 'lanes_query_end(x)'),
    ("results go to the row behind the last", "key_layout.c", '"mb < q_length"', '"mb < q_length + 1"'),
    ("packed rows of no sequence are left as they are", "key_layout.c", '"cdiv(behind_end - behind_first, %s)"', '"cdiv(behind_end - behind_end, %s)"'),
    ("padded rows of no sequence are left as they are", "key_layout.c", 'write_nothing(x, lanes_row_place(x, LANES_QUERIES, "h", "mb +: 1"), columns, finals);', ';'),
    ("rows of no sequence are a sequence's", "key_layout.c", '"q_start + q_length + mb"', '"q_start + mb"'),
    ("sequences of one row more than few are nobody's", "key_layout.c", '"q_all - q_start > %s", few', '"q_all - q_start > 1 + %s", few'),
    ("short chunks have the first block's rows alone", "forward_parts.c", '"turn * %d + piece", pieces', '"turn * %d + 0 * piece", pieces'),
    ("sequences of as many rows as are few are nobody's", "key_layout.c", '"where(%s <= %s, %s, 0)"', '"where(%s < %s, %s, 0)"'),
    ("sequences of many begin with the first of all", "work_list.c", '"i32(reduce_sum(before, s))"', '"0 * i32(reduce_sum(before, s))"'),
    ("the last block of a sequence is in no list", "work_list.c", '"n < %s && place < %s", count, room', '"n < %s - 1 && place < %s", count, room'),
    ("what is behind the list of many is left as it is", "work_list.c", '"place >= listed && place < %s"', '"place > listed && place < %s"'),
    ("rows of few are joined by the first block alone", "warps_row_parts.c", '"first_row + turn_of_row * %d"', '"first_row + 0 * turn_of_row * %d"'),
    ("tiles of rows meet where they were joined", "warps_decode_parts.c", 'if (x->only) tile_sync(x->t, "all");', ''),
    ("blocks of multiply-adds beside many are all the first", "warps_decode_parts.c", '"first_block + turn_of_block * %s"', '"first_block + 0 * turn_of_block * %s"'),
    ("blocks ask the first heads for their ranges", "lanes_rows.c", 'tile_text(t, "mb * %d", x->block), NULL', 'tile_text(t, "0 * mb * %d", x->block), NULL'),
    ("values are those of the keys' head", "forward_parts.c", 'lanes_groups(x), lanes_axis(x, n + 1, 1)', 'lanes_groups(x), lanes_axis(x, n * 0 + 1, 1)'),
    ("the one part of a row is the first row's", "warps_row_parts.c", '"part_acc[0, %s, %s]", at', '"part_acc[0, %s, %s]", "b, 0, 0 +: 1"'),
    ("processors: heads have as many rows as a sequence may", "lanes_decode.c", 's = lanes_query_end(x);\n    if (x->of_group)', 's = lanes_most_queries(x);\n    if (x->of_group)'),
    ("processors: queries are those of the first sequence", "lanes_decode.c", 'lanes_row_place(x, LANES_QUERIES, "h", "mb"));', 'x->p->attn->queries.layout == AU_LAYOUT_PACKED ? "0, h, mb" : "b, h, mb");'),
    ("processors: blocks have the first one's rows", "lanes_decode.c", '"(block * %d + %s)"', '"(0 * block * %d + %s)"'),
    ("processors: values are the keys' first channels", "decode_rows.c", "row, x->p->attn->v_first, columns", "row, 0 * x->p->attn->v_first, columns"),
    ("processors: blocks behind the last row have rows", "lanes_decode.c", '"clamp(%s, 0, %d)"', '"max(min(%s, %d), 1)"'),
]

LINES = [
    ("rows of q are the sequences'", "key_layout.c", 'return "q_line";', 'return "min(b, b + q_line)";'),
    ("rows of q are one behind", "key_layout.c", 'lanes_query_line_of(x, "b"));\n    put_positions(x, LANES_QUERIES, false);', 'lanes_query_line_of(x, "(b + 1) % 2"));\n    put_positions(x, LANES_QUERIES, false);'),
    ("rows of q that nobody has are left as they are", "query_lines.c", '"taken[line] == 0"', '"taken[line] < 0"'),
    ("rows of q are nobody's", "query_lines.c", '"taken[line] == 0"', '"taken[line] >= 0"'),
    ("the last sequence alone has a row of q", "query_lines.c", 'when n < %s", sequences', 'when n == %s - 1", sequences'),
    ("sequences behind a block's first ones have no row of q", "query_lines.c", '"n", "some * %d', '"n", "0 * some * %d'),
]

SHARES = [
    ("a sequence's parts begin with the first of all", "warps_shares.c", '"where(fits, i32(reduce_sum(each_before', '"where(fits, 0 * i32(reduce_sum(each_before'),
    ("parts of the sequence count among those before it", "warps_shares.c", 'where(iota(w:%d) < self, each_own', 'where(iota(w:%d) <= self, each_own'),
    ("parts of a block's sequences count twice", "warps_shares.c", 'where(number < turn * %d, count, 0.0)", WARPS', 'where(number < (turn + 1) * %d, count, 0.0)", WARPS'),
    ("the last part is nobody's", "warps_shares.c", '"n < own_parts && "', '"n < own_parts - 1 && "'),
    ("parts are of another sequence", "warps_decode_parts.c", '"clamp(share_of[0, slot], 0, %s - 1)"', '"clamp(share_of[0, slot] - 1, 0, %s - 1)"'),
    ("all parts are the first", "warps_decode_parts.c", '"share_of[1, slot]"', '"min(share_of[1, slot], 0)"'),
    ("sequences have a part less than the list says", "warps_decode_parts.c", '"clamp(share_at[1, b], 1, %d)"', '"clamp(share_at[1, b] - 1, 1, %d)"'),
    ("one part less is joined", "warps_row_parts.c", '"clamp(share_at[1, b], 0, %s)"', '"clamp(share_at[1, b] - 1, 0, %s)"'),
    ("a wild list says where parts that are joined begin", "warps_row_parts.c", '"clamp(share_at[0, b], 0, %s - parts)"', '"share_at[0, b] + 0 * (%s - parts)"'),
    ("a wild list says how many parts are joined", "warps_row_parts.c", '"clamp(share_at[1, b], 0, %s)"', '"max(share_at[1, b], 0 * %s)"'),
    ("rows of several parts are ended by each", "warps_decode_parts.c", '"%s == 1", x->p->balanced', '"%s >= 1", x->p->balanced'),
    ("rows of one part are joined, too", "warps_row_parts.c", '"parts != 1%s"', '"parts >= 0%s"'),
    ("a wild list says whose a part is", "warps_decode_parts.c", '"clamp(share_of[0, slot], 0, %s - 1)"', '"share_of[0, slot] + 0 * %s"'),
    ("parts are joined from the place behind the first on", "warps_row_parts.c", '"first_part + "', '"1 + first_part + "'),
    ("first parts are taken for places without one", "warps_decode_parts.c", '"span >= 0 && span < parts"', '"span > 0 && span < parts"'),
    ("a wild list says what a sequence shares, and what an item has", "key_groups.c", '"clamp(%s[%d, %s], %s, %s)"', '"%s[%d, %s] + 0 * (%s) + 0 * (%s)"'),
    ("a search leaves out a round that few groups need", "key_groups.c", '"%s > %d", shares(x), step', '"%s > 8 * %d", shares(x), step'),
    ("sums over sequences miss the first", "warps_shares.c", '"(some * %d + self) * %d", WARPS', '"1 + (some * %d + self) * %d", WARPS'),
]

WIDE = [
    ("weights are by the states of a warp's keys alone", "warps_wide.c", '"p * own"', '"p * 1.0"'),
    ("sums so far keep their factor", "warps_wide.c", '"acc * factor"', '"acc * 1.0"'),
    ("weights have the factors of others", "warps_wide.c", '"where(self %% %d == %d, second, own * first)"', '"where(self %% %d != %d, second, own * first)"'),
    ("states of a part count as often as there are parts", "warps_wide.c", 'part_states(x, n), part * x->block', 'part_states(x, n), 0 * part * x->block'),
    ("all warps have the first one's channels", "warps_wide.c", '"%s[%s:, %sself * %d +: %d] as [kv, e]"', '"%s[%s:, %s0 * self * %d +: %d] as [kv, e]"'),
    ("values begin with the keys", "warps_wide.c", 'x->own_v ? 0 : x->p->attn->v_first', 'x->own_v ? 0 : 0 * x->p->attn->v_first'),
    ("weights are read before they are there", "warps_wide.c", 'tile_sync(t, "all");\n    if (!factor)', 'if (!factor)'),
    ("states are read before they are there", "warps_wide.c", 'own_rows(x));\n    tile_sync(x->t, "all");', 'own_rows(x));'),
    ("the tile after the next one is brought", "warps_wide.c", 'warps_forward_issue_keys(x, "next(n)",', 'warps_forward_issue_keys(x, "n",'),
    ("blocks of a head have the rows of the head before", "warps_whole.c", '"head %% group"', '"max(head %% group - 1, 0)"'),
    ("rows are of the first block's queries", "warps_whole.c", '"mb * %d + "', '"0 * mb * %d + "'),
    ("rows behind the sequence's end are written", "warps_whole.c", '"all_i < %s"', '"all_i < %s + 1"'),
    ("blocks end where half of their rows do", "warps_whole.c", '"mb >= 0 && mb * %d + share * %d / group < %s"', '"mb >= 0 && mb * %d + (share + 1) * %d / group < %s"'),
    ("keys of a block are those of its first row", "warps_whole.c", 'min(max(mb, 0) * %d + %d, %s)', 'min(max(mb, 0) * %d + %d / 64, %s)'),
    ("rows are all of the first head", "warps_decode_parts.c", '"%s * group + %s %% group", lanes', '"%s * group + 0 * %s %% group", lanes'),
    ("queries are brought by another head", "warps_wide.c", '"%s * group + brought %% group"', '"%s * group + (brought + 1) %% group"'),
    ("groups' sums keep their factor", "group_wide.c", '"acc%d * %s"', '"acc%d + 0.0 * %s"'),
    ("groups' values begin with the keys", "group_wide.c", 'x->own_v ? 0 : x->p->attn->v_first', 'x->own_v ? 0 : 0 * x->p->attn->v_first'),
    ("all groups have the first one's channels", "group_wide.c", '"%s[:, %d + self * %d +: %d] as [kv, e]"', '"%s[:, %d + 0 * self * %d +: %d] as [kv, e]"'),
    ("groups' queries are brought by another head", "group_parts.c", '"%s * group + brought %% group"', '"%s * group + (brought + 1) %% group"'),
    ("a block's queries are those of the first block", "group_parts.c", '"%s * group + %s %% group +: %d"', '"%s * group + 0 * (%s) %% group +: %d"'),
    ("a box is of the first query of the block", "group_parts.c", '"%smin(%s%s / group,', '"%smin(%s0 * %s / group,'),
    ("rows of several queries come as a box", "group_parts.c", '"group %% %d == 0 || %s == 1"', '"group %% %d != 0 || %s == 1"'),
    ("the factor of a tile is the next one's", "group_wide.c", '"scale -> w.factor"', '"scale * 0.5 -> w.factor"'),
]

GROUPS = [
    ("rows are all of the first sequence", "key_groups.c", 'tile_set(t, "b", "min(%s, %s - 1)"', 'tile_set(t, "b", "min(0 * (%s) + leader, %s - 1)"'),
    ("rows have the length of the group's first sequence", "key_groups.c", 'tile_set(t, "kv_length", "%s", lanes_length_of(x));', 'tile_set(t, "kv_length", "shared_length + 0 * b");'),
    ("queries are those of the head beside", "warps_prefix.c", '"%s * group + %s %% group"', '"%s * group + (%s + 1) %% group"'),
    ("what is shared is not joined", "warps_prefix.c", '"cdiv(%s, max(cdiv(%s, %s), 1))"', '"0 * cdiv(%s, max(cdiv(%s, %s), 1))"'),
    ("of windows what is shared is not joined", "warps_prefix.c", '"where(own_low > 0, %s, 0)"', '"where(own_low < 0, %s, 0)"'),
    ("parts that have no tile are joined", "warps_prefix.c", '"cdiv(%s, max(cdiv(%s, %s), 1))"', '"cdiv(%s, max(cdiv(%s, %s), 1)) + 1"'),
    ("what is shared is the row beside's", "key_groups.c", '"b * %s + %s"', '"(b + 1) / 2 * %s + %s"'),
    ("a sequence reads what it shares once more", "key_groups.c", '? "max(k_low, own_low)" : "k_low"', '? "k_low" : "k_low"'),
    ("shorter sequences share, too", "key_groups.c", ': "kv_length >= said"', ': "kv_length >= 0"'),
    ("the last group ends with its first sequence", "key_groups.c", '"(leader + followers) * %s"', '"(leader + 1) * %s"'),
    ("pages are those of the first sequence of all", "key_layout.c", 'x->of_group ? "leader" : "b"', 'x->of_group ? "0" : "b"'),
    ("a group begins where a wild list says", "key_groups.c", '"clamp(%s[%s], 0, %s)"', '"%s[%s] + 0 * %s"'),
    ("a group ends where a wild list says", "key_groups.c", '"clamp(%s[share_at + 1], leader, %s) - leader"', '"%s[share_at + 1] + 0 * %s - leader"'),
    ("items of groups overlap", "key_groups.c", '"%s * %s / %d + %s", first_of(x, n), item_rows(x), x->block, n', '"%s * %s / %d + 0 * %s", first_of(x, n), item_rows(x), x->block, n'),
    ("windows end at once", "warps_prefix.c", 'store_end(x, 1, "", "clamp(high, 0,', 'store_end(x, 1, "", "clamp(0 * high, 0,'),
    ("windows begin late", "warps_prefix.c", 'store_end(x, 0, "-", "clamp(low, 0,', 'store_end(x, 0, "-", "clamp(low + 64, 0,'),
    ("tiles that some row sees are seen by all", "warps_prefix.c", 'store_end(x, 2, "", "clamp(full_low, 0,', 'store_end(x, 2, "", "clamp(0 * full_low, 0,'),
    ("only the first part of the tiles is there", "warps_decode_parts.c", '"min(n_low + span * share, n_high)"', '"min(n_low + 0 * span * share, n_high)"'),
    ("processors: rows are those of the sequence before", "lanes_decode.c", 'lanes_name_group_rows(x, tile_text(t, "(first_row + %s)", row))', 'lanes_name_group_rows(x, tile_text(t, "max(first_row + %s - 1, 0)", row))'),
    ("sequences with more rows than their group's first share, too", "key_groups.c", 'q_length <= share_queries"', 'q_length >= 0"'),
    ("packed rows are numbered as if there were one more", "key_groups.c", '(b - leader) * share_rows + %s"', '(b - leader) * (share_rows + 1) + %s"'),
    ("packed rows are the first sequence's", "key_groups.c", 'tile_set(t, "q_start", "%s", lanes_query_start_of(x, "b"));', 'tile_set(t, "q_start", "%s", lanes_query_start_of(x, "leader"));'),
    ("an item has its first rows alone", "key_groups.c", '"cdiv(last_row - first_row, turn_rows)"', '"min(cdiv(last_row - first_row, turn_rows), 1)"'),
    ("scales are those of the first sequence of all", "key_storage.c", '.rows = rows}, "b")', '.rows = rows}, "0 * b")'),
    ("sums of what is shared have no scale", "warps_prefix.c", "    lanes_scale_values(x);\n", ""),
    ("processors: what is shared begins with the second part", "lanes_decode.c", 'tile_for_range(t, "part", "0", tile_text(t, "cdiv(own_low', 'tile_for_range(t, "part", "1", tile_text(t, "cdiv(own_low'),
    ("processors: windows begin at the last sequence's", "lanes_decode.c", 'min(k_low, max(low, 0)), k_low)', 'max(low, 0), k_low)'),
]

ORDERED = [
    ("rows of dQ end while their product is under way", "group_queries.c", '    tile_wait(t, "dq_acc");\n    tile_release(t, "y");', '    tile_release(t, "y");'),
    ("keys that nobody sees are multiplied by zeros of dS", "group_load.c", 'lanes_operand_rows(x, 1, ":"), false, NULL});\n    add(&r, (Tile){"V", type_of(x, "kv", keys,', 'lanes_operand_rows(x, 1, ":"), true, NULL});\n    add(&r, (Tile){"V", type_of(x, "kv", keys,'),
    ("dQ is not masked", "group_queries.c", "warps_query_pairs(x);", 'tile_set(t, lanes_pair_results(x), "%s", lanes_pair_hook(x, "backward_pair", true, NULL));\n    tile_set(t, "ds_operand", "%s(ds)", x->held);'),
]

GRADIENTS = [
    ("scores of the next tile are not waited for", "group_backward.c", '    start_scores(x);\n    tile_wait(x->t, "score");', '    start_scores(x);'),
    ("nothing comes behind the last tile", "group_load.c", "if (x->shape->scores_ahead) fill_behind(x);", "(void)fill_behind;"),
    ("the stage behind the last tile is another tile's scores", "group_backward.c", '    scores_ahead(x);\n    group_back_open_walk(x);', '    scores_ahead(x);\n    if (x->shape->scores_ahead) tile_release(t, "y");\n    scores_ahead(x);\n    group_back_open_walk(x);'),
    ("scores of the next tile start while its queries' stage is let go", "group_backward.c", '    tile_release(t, "y");\n    scores_ahead(x);', '    scores_ahead(x);\n    tile_release(t, "y");'),
    ("boxes of gradients reach into the next sequence", "group_back_parts.c", 'if (none) rows = group_span(x, LANES_KEYS, rows, "");', '(void)none;'),
    ("statistics of packed rows are those of the first sequence", "group_load.c", 'lanes_at(x, tile->from, whole)', 'lanes_at(x, tile->from, tile_text(x->t, "m * %d +: %d", x->shape->query_tile, x->shape->query_tile))'),
    ("blocks behind a sequence's last bring boxes", "group_parts.c", '" || %s < 0 || %s >= %s"', '" || %s < 0 || %s > 64 + %s"'),
    ("sums of dQ of two sequences share a tile", "back_parts.c", '"(q_start / %d + b) * %d"', '"(q_start / %d + 0 * b) * %d"'),
    ("gradients of no sequence are left as they are", "back_results.c", '"nb * %d + %d > %s", rows, rows, end', '"nb * %d > %s + %d", rows, end, rows'),
    ("queries have no end", "lanes_rows.c", '? " from q_start + q_low to q_start + min(q_high, q_length)"', '? ""'),
    ("queries are those of the first sequence", "warps_tiles.c", '*start = lanes_row_start(x, LANES_QUERIES)', '*start = (*lanes_row_start(x, LANES_QUERIES) ? "0 * q_start + " : "")'),
    ("keys are those of the first sequence", "warps_tiles.c", 'lanes_row_start(x, LANES_KEYS)', '(*lanes_row_start(x, LANES_KEYS) ? "0 * kv_start + " : "")'),
    ("a block has the keys of the next one", "warps_gradients.c", 'tile_let(t, "nb", "turn");', 'tile_let(t, "nb", "turn + 1");'),
    ("pieces of a block are one piece", "back_order.c", '"turn * %d + slice"', '"turn * %d + 0 * slice"'),
    ("parts of dQ begin at the first row", "lanes_parts.c", 'lanes_place(x, LANES_QUERIES, "h", tile_text(x->t, "m * %d +: %d", m, m))', 'tile_text(x->t, "0, h, m * %d +: %d", m, m)'),
    ("statistics are those of the first sequence", "lanes_keys.c", 'lanes_row_place(x, LANES_QUERIES, "h", "i")', '"0, h, i"'),
    ("pairs of keys that are no keys count", "lanes_keys.c", "x->with_dq || padded", "x->with_dq && !padded"),
    ("padded queries have no end", "lanes_rows.c", 'queries_end      ? " from 0 to q_length"', 'queries_end      ? ""'),
    ("padded queries have no end behind their first tile", "lanes_rows.c", '&& !mask) return " from 0 to q_length";', '&& !mask) return "";'),
    ("behind padded queries is left as it is", "back_results.c", 'padded ? "q_length"', 'padded ? "q_length + 8"'),
    ("all keys are seen by a block without a row", "lanes_lists.c", '"max(%s, 1)"', '"max(%s, 0)"'),
    ("keys that are none have a norm's gradient", "back_results.c", '"where(j < kv_length, change, 0.0)"', '"change"'),
]

FURTHER = [
    ("sequences have the rows of a cache of their number", "rows.c", 'side == LANES_KEYS ? lanes_key_line(x)', 'side == LANES_KEYS ? "b"'),
    ("packed rows are those of the first sequence", "rows.c", '.in_sequence = lanes_dot_is_in_sequence(x->p, n, side)', '.in_sequence = lanes_is_packed(x, side)'),
    ("tables of all sequences are packed", "rows.c", 'return is_packed(side == LANES_KEYS', 'return !a && is_packed(side == LANES_KEYS'),
    ("copies of further rows in pages are not waited for", "warps_pages.c", 'n < lanes_term_count(x); n++)\n        add_tokens(', 'n < 1; n++)\n        add_tokens('),
    ("processors: keys of further products do not come", "lanes_decode.c", 'copy_further_rows(x);\n    of_all', 'of_all'),
    ("processors: further rows of queries are the first", "lanes_decode.c", '"f32(%v) -> %v[place +: 1, :]"', '"f32(%v) -> %v[0 * place +: 1, :]"'),
    ("heads have the keys of the first", "rows.c", 'return "hk";', 'return "0";'),
    ("sums of further rows are the first sequence's", "lanes_pairs.c", 'lanes_view_span(x, x->own, view, lanes_own_rows(x), LANES_TO_SEQUENCE)));\n        if (again)', 'lanes_own_rows(x)));\n        if (again)'),
    ("warps: sums of further keys are the first sequence's", "warps_inputs.c", 'lanes_view_span(x, LANES_KEYS, view, rows, LANES_TO_SEQUENCE)', 'rows'),
]

APPEND = [
    ("rows go to the slot behind theirs", "lanes_append.c", '"slot - page * %s"', '"slot + 1 - page * %s"'),
    ("no slot is a slot", "lanes_append.c", '"slot >= 0 && page <', '"slot >= -1 && page <'),
    ("slots beyond the cache are in it", "lanes_append.c", '"slot >= 0 && page < where(%s > 0, %s, 0)"', '"slot >= 0 && page < where(%s > 0, %s + 1000, 0)"'),
    ("a slot of 64 bits is its low half", "lanes_append.c", '"narrow(slots[m, n])"', '"slots[m, n]"'),
    ("the last new row is the last but one", "lanes_append.c", '"%s - %s", length', '"%s - 1 - %s", length'),
    ("what is no page is one", "lanes_append.c", '"page >= 0 && page < %s"', '"page >= -1 && page < %s"'),
    ("rows before the first are there", "lanes_append.c", '"%sj >= 0 && j < %s"', '"%sj >= -1 && j < %s"'),
    ("rows behind the last are there", "lanes_append.c", '"%sj >= 0 && j < %s"', '"%sj >= 0 && j < 2 + %s"'),
    ("a packed row is the sequence's before", "lanes_append.c", '"%s[middle] <= n"', '"%s[middle] < n"'),
    ("rows of no sequence are written", "lanes_append.c", "token >= 0 && token < count && ", "token >= 0 && "),
    ("a sequence's row of the cache is its number", "lanes_append.c", 'keys->has_rows ? "line" : "b"', 'keys->has_rows ? "b" : "b"'),
    ("scales do not know NaN", "append_codes.c", '"reduce_maxnan(abs(', '"reduce_max(abs('),
    ("scales of parts do not know NaN", "append_codes.c", '"reduce_maxnan(%s, %s)"', '"reduce_max(%s, %s)"'),
    ("rows of zeros have the scale 0", "append_codes.c", '(t, name, "where(%s < %s, 1.0, %s / %d.0)"', '(t, name, "where(%s < -%s, 1.0, %s / %d.0)"'),
    ("codes go by a scale that was not rounded yet", "append_codes.c", "    round_as_held(x, tensor, name);", "    (void)round_as_held;"),
    ("codes go by a zero point that was not rounded yet", "append_codes.c", "        round_as_held(x, as->zero, out.zero);\n", ""),
    ("scales of f16 are the nearest", "append_codes.c", "dtype == AU_DT_F16 ? tile_text", "dtype == AU_DT_I32 ? tile_text"),
    ("scales of slots are the batch's", "append_codes.c", '? "m" : "page"', '? "m" : "m"'),
    ("the odd channel of a byte is the even one", "append_codes.c", 'high ? " + 1" : ""', 'high ? "" : ""'),
    ("scales of groups do not know their odd channels", "append_codes.c", "if (lanes_stores_halves(x, s->n)) {\n        const char *high", "if (lanes_stores_halves(x, s->n) && !s->n) {\n        const char *high"),
    ("negative codes are added whole", "append_codes.c", '"where(%s < 0.0, %s + 16.0, %s) + 16.0', '"where(%s < -9.0, %s + 16.0, %s) + 16.0'),
    ("what is no number is a code", "append_codes.c", '"where(%s == %s, clamp', '"where(%s == %s || true, clamp'),
]

CHUNK = [
    ("queries are those of another head", "group_packed.c", 'lanes_rows(x, lanes_changed_name(x, 0), "h", ":")', 'lanes_rows(x, lanes_changed_name(x, 0), "max(h - 1, 0)", ":")'),
    ("both groups have the first one's rows", "warps_decode.c", '"%s + self * %d", first', '"%s + 0 * self * %d", first'),
    ("queries behind the last are read as they lie", "group_packed.c", 'pad 0 when i < %s', 'pad 0 when i + 1 < %s'),
    ("rows behind the last are written", "warps_decode.c", '*when = tile_text(t, "i < %s"', '*when = tile_text(t, "i < %s + 1"'),
    ("groups begin anew before others have ended", "group_packed.c", 'if (starts_anew(x)) tile_sync(t, "all");', ""),
    ("sums of a part are those of the first rows", "warps_decode.c", '"[%s, %s +: %d"', '"[%s, 0 * (%s) +: %d"'),
    ("all rows see what the first block's do", "warps_decode_parts.c", '"key_range(b, 0, mb * %d / max(group, 1), min((mb * %d + %d)', '"key_range(b, 0, 0 * mb * %d / max(group, 1), min((0 * mb * %d + %d)'),
    ("the first tile of a part is another's", "warps_decode_parts.c", 'TILE_DOWN, "full_tile", "first_tile"', 'TILE_DOWN, "full_tile", "max(first_tile - 1, 0)"'),
    ("the last tile of a part is left out", "warps_decode_parts.c", 'TILE_DOWN, "last_tile", "first_tile"', 'TILE_DOWN, "max(last_tile - 1, first_tile)", "first_tile"'),
]

BACK = [
    ("blocks of a head have the rows of the head before", "warps_whole.c", '"head %% group"', '"max(head %% group - 1, 0)"'),
    ("rows are of the first block's queries", "warps_whole.c", '"mb * %d + "', '"0 * mb * %d + "'),
    ("rows behind the sequence's end are written", "warps_whole.c", '"all_i < %s"', '"all_i < %s + 1"'),
    ("blocks end where half of their rows do", "warps_whole.c", '"mb >= 0 && mb * %d + share * %d / group < %s"', '"mb >= 0 && mb * %d + (share + 1) * %d / group < %s"'),
    ("keys of a block are those of its first row", "warps_whole.c", 'min(max(mb, 0) * %d + %d, %s)', 'min(max(mb, 0) * %d + %d / 64, %s)'),
    ("rows are all of the first head", "warps_decode_parts.c", '"%s * group + %s %% group", lanes', '"%s * group + 0 * %s %% group", lanes'),
    ("sums of dQ go to the rows of another head", "warps_back_few.c", 'dq_sum[b, %sh, %si,', 'dq_sum[b, 0 * %sh + hk * group, %si,'),
    ("rows that see nothing are what they are", "warps_back_few.c", '"own_i >= q_low && " : ""', '"" : ""'),
    ("rows that see nothing are what they are, behind", "warps_back_few.c", '? "min(q_end, %s)" : "%s"', '? "max(min(q_end, 0), %s)" : "%s"'),
    ("keys of nobody are read", "warps_back_few.c", '? "k_low" : "0"', '? "0" : "0"'),
    ("parts have a tile in common", "warps_back_few.c", '"first_tile", "last_tile"', '"first_tile", "min(last_tile + 1, n_high)"'),
    ("a tile is that of the turn before", "warps_back_few.c", 'issue_keys(x, "(nb + 1)", warps_stage(x, true))', 'issue_keys(x, "nb", warps_stage(x, true))'),
    ("copies fill what is read", "warps_back_few.c", 'issue_keys(x, "(nb + 1)", warps_stage(x, true))', 'issue_keys(x, "(nb + 1)", warps_stage(x, false))'),
    ("dQ is of keys that are gradients by now", "warps_back_few.c", 'query_gradients(x);\n    key_gradient(x, 1);', 'key_gradient(x, 1);\n    query_gradients(x);'),
    ("of dQ the first warp's counts twice", "warps_back_few.c", 'warp ? " + before" : ""', 'warp == 1 ? " + before + before" : warp ? " + before" : ""'),
    ("warps add to what another is storing", "warps_back_few.c", 'tile_end(t);\n        tile_sync(t, "all");\n    }\n}', 'tile_end(t);\n    }\n    tile_sync(t, "all");\n}'),
    ("rows are read before they are there", "warps_back_few.c", 'tile_sync(t, "all");\n    walk_keys(x);', 'walk_keys(x);'),
    ("dV keeps the factor of its weights", "warps_back_few.c", 'if (n == 2) warps_end_weights(x);', ''),
    ("the last channels of keys are those before", "warps_back_few.c", 'const char *columns = tile_text(t, "%d +: %d", c, cut);', 'const char *columns = tile_text(t, "%d +: %d", c ? c - cut : c, cut);'),
]

STORED = [
    ("scales are those of the first group", "key_storage.c", 'at.group ? at.group : "0"', '"0"'),
    ("zero points are not taken off", "key_elements.c", '"(%s - %s) * %s"', '"(%s - 0.0 * %s) * %s"'),
    ("zero points are not taken off of rows that are changed", "key_storage.c", '"(%s - %s)", number', '"(%s - 0.0 * %s)", number'),
    ("the halves of a byte change places", "key_storage.c", '"where(%s %% 2 == 0', '"where(%s %% 2 == 1'),
    ("lower codes have no sign", "key_storage.c", "floor((%s + 8.0)", "floor((%s + 0.0)"),
    ("scales of nobody count", "key_elements.c", '"where(%s, %s, 0.0)", lanes_key_inside(x, token)', '"where(%s || true, %s, 0.0)", lanes_key_inside(x, token)'),
    ("codes are read before all have come", "lanes_forward.c", "(key_codes || value_codes) && lanes_shares_tiles(x)", "(key_codes || value_codes) && !lanes_shares_tiles(x)"),
    ("values have the scales of the next head", "key_storage.c", 'attn->v_in_k ? "hk" : "hv"', 'attn->v_in_k ? "hk" : "hv + 1"'),
    ("tokens of packed keys have the scales of the first ones", "key_storage.c", "lanes_row_start(x, LANES_KEYS), at.rows", '"", at.rows'),
    ("a warp makes elements of another's rows", "key_elements.c", '"self * %d + ", share', '"(self + 1) %% 2 * %d + ", share'),
]

CODES = [
    ("scales are those of the tile before", "warps_codes.c", 'if (keys) warps_scales_load(x, "next(n)");', 'if (keys) warps_scales_load(x, "n");'),
    ("slots of scales are the first", "warps_scales.c", '"page0", "slot0"', '"page0", "0 * slot0"'),
    ("values have the scales of keys", "key_storage.c", 'n == 1 ? TILE_NAME("k_scale_ahead") : TILE_NAME("v_scale_ahead")', 'n ? TILE_NAME("k_scale_ahead") : TILE_NAME("v_scale_ahead")'),
    ("weights have lost the scales' range", "warps_scales.c", '"%s * %d.0", scale, lanes_weight_range(x)', '"%s * %d.0", scale, 2 * lanes_weight_range(x)'),
    ("pages go by slots alone", "warps_pages.c", '"ahead_page%u + tile_pages + where', '"ahead_page%u + 0 * tile_pages + where'),
    ("slots go on behind a page's last", "warps_pages.c", 'slot_behind, slot_behind - page_rows)"', 'slot_behind, slot_behind)"'),
]

MATRICES = [
    ("a tile comes while others read the one before", "matrices_backward.c", 'tile_sync(t, "all"); /* nobody', "/* nobody"),
    ("pairs are made before the tile has come", "matrices_backward.c", 'warps_issue_queries(x, "m", "");\n    tile_sync(t, "all");', 'warps_issue_queries(x, "m", "");'),
    ("keys come while others read those before", "matrices_backward.c", 'tile_sync(t, "all");\n    issue_keys(x);', "issue_keys(x);"),
    ("dQ takes keys that have not come", "matrices_backward.c", 'issue_keys(x);\n    tile_sync(t, "all");', "issue_keys(x);"),
    ("all pieces are the first", "matrices_parts.c", '"%d +: %d", n * p->width, p->width', '"%d +: %d", n * 0, p->width'),
    ("each piece of a product begins anew", "matrices_parts.c", "n ? TILE_ADD : TILE_START", "n ? TILE_START : TILE_START"),
    ("dK takes weights", "matrices_backward.c", 'add(x, KEYS, "ds_operand", false)', 'add(x, KEYS, "weight", false)'),
    ("weights of f16 keep their factor", "matrices_backward.c", "if (values) warps_end_weights(x);", "if (values && !x->rows) warps_end_weights(x);"),
    ("queries are numbered as those of the tile before", "matrices_backward.c", '"m * %d + iota(q:%d)"', '"(m - 1) * %d + iota(q:%d)"'),
    ("keys are numbered as the next one", "matrices_backward.c", '"n * %d + iota(kv:%d)"', '"n * %d + 1 + iota(kv:%d)"'),
    ("sums of inputs are of the last tile alone", "matrices_backward.c", "warps_add_totals(x);", "warps_declare_totals(x);"),
    ("keys come while others read them", "matrices_forward.c", 'tile_sync(t, "all"); /* nobody', "/* nobody"),
    ("sums are not rescaled", "matrices_forward.c", '"%s%d * spread"', '"%s%d * 1.0"'),
    ("values begin with the keys", "matrices_forward.c", "x->p->attn->v_first + n * sums.width", "n * sums.width"),
    ("a whole row is its first piece, again and again", "matrices_forward.c", "x->rows, matrices_channels(x, &sums, n)", "x->rows, matrices_channels(x, &sums, 0)"),
    ("heads of their own add to nothing", "matrices_backward.c", "x.heads_apart = warps_heads_apart(p)", "x.heads_apart = !warps_heads_apart(p)"),
]


def main():
    source, build = (Path(x).resolve() for x in sys.argv[1:3])
    folder = source / "compiler/schedule"
    if sys.argv[3:] == ["texts"]:
        return planted.all_stand(MISTAKES + ROWS + PAGES + FEW + LINES + LANES + SHARES + WIDE + CHUNK + BACK + GROUPS + ORDERED + GRADIENTS + STORED + CODES + APPEND + MATRICES + FURTHER, folder)
    recurrences = ["tests/exec/linear_test", "tiled-ir:sm_90", source / "tests/exec/linear", "planted"]
    scripts = ["tests/exec/ladder_test", source / "tests/front/examples", "all"]
    mistakes, (test, *words), seconds = {
        "": (MISTAKES, recurrences, 120),
        "tenth": (MISTAKES[::10], recurrences, 120),
        "rows": (ROWS, [*scripts, "forward packed"], 120),
        "pages": (PAGES, [*scripts, " pages"], 300),
        "lanes": (LANES, [*scripts, "kernel-ir:generic"], 300),
        "few": (FEW, [*scripts, "unequal"], 300),
        "lines": (LINES, [*scripts, "lines"], 300),
        "groups": (GROUPS, [*scripts, "groups shares"], 300),
        "back": (BACK, [*scripts, "keyed"], 120),
        "shares": (SHARES, [*scripts, "balanced lists"], 300),
        "wide": (WIDE, [*scripts[:2], "latent"], 300),  # not all: each case on half of the rungs
        "chunk": (CHUNK, [*scripts, "chunk forward"], 300),
        "ordered": (ORDERED, [*scripts, "ordered"], 300),
        "gradients": (GRADIENTS, [*scripts, "planted"], 600),
        "further": (FURTHER, [*scripts, "further seeded"], 300),
        "stored": (STORED, [*scripts, "channels32 zero"], 300),
        "codes": (CODES, [*scripts, "token invariant"], 300),
        "matrices": (MATRICES, ["tests/exec/matrices_test", "interpreters", source / "tests/front/examples"], 120),
        "append": (APPEND, ["tests/exec/append_test", "tiled-ir:sm_80", "kernel-ir:sm_80"], 120),
    }["".join(sys.argv[3:])]
    lines = subprocess.run([shutil.which("ninja") or "ninja", "-C", build, "-t", "commands", test], capture_output=True, text=True, check=True).stdout
    link = shlex.split(lines.rstrip().splitlines()[-1])
    commands = {Path(entry["file"]).name: entry["command"] for entry in json.loads((build / "compile_commands.json").read_text()) if "compiler/schedule" in entry["file"]}
    with tempfile.TemporaryDirectory() as name:
        there = Path(name)

        def fails(file, text):
            changed = []
            if file:
                (there / file).write_text(text)
                changed = [str(there / "changed.o")]
                command = shlex.split(commands[file])
                command[command.index("-o") + 1] = changed[0]
                command[command.index("-MF") + 1] = str(there / "changed.d")
                command[-1] = str(there / file)
                subprocess.run([*command, "-Wno-error", "-O1", f"-I{folder}"], cwd=build, check=True)
            at = link.index(test)
            subprocess.run([*link[:at], str(there / "test"), *changed, *link[at + 1 :]], cwd=build, check=True)
            run = subprocess.run([there / "test", *words], capture_output=True, timeout=seconds, env=WHOLE)
            return run.returncode != 0

        planted.try_all(mistakes, folder, fails)


main()
