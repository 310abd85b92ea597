/* The points of a sweep ranked at each size; see ranking.h. */
#include "tools/sweep/ranking.h"

#include <assert.h>
#include <stdlib.h>

static const struct tutti_point *point_of(const struct tutti_sweep *sweep, uint32_t size_index,
                                          uint32_t algorithm)
{
    return &sweep->points[(size_t)size_index * sweep->algorithm_count + algorithm];
}

const struct tutti_point *tutti_ranking_point(const struct tutti_ranking *ranking, uint32_t row,
                                              uint32_t algorithm)
{
    assert(row < ranking->row_count && algorithm < ranking->sweep->algorithm_count);
    return point_of(ranking->sweep, ranking->rows[row].size_index, algorithm);
}

const struct tutti_point *tutti_ranking_at(const struct tutti_ranking *ranking, uint32_t row,
                                           uint32_t place)
{
    assert(place < ranking->rows[row].place_count);
    return tutti_ranking_point(ranking, row, ranking->rows[row].places[place]);
}

/* Is algorithm `a` before `b` at this size? `last` won at the size before. */
static bool is_before(const struct tutti_sweep *sweep, uint32_t size_index, uint32_t a, uint32_t b,
                      uint32_t last)
{
    tutti_ps a_ps = point_of(sweep, size_index, a)->answer.time_ps;
    tutti_ps b_ps = point_of(sweep, size_index, b)->answer.time_ps;

    if (a_ps != b_ps)
        return a_ps < b_ps;
    if (a == last || b == last)
        return a == last;
    return a < b;
}

/* By insertion: there are a dozen. */
static void rank_row(const struct tutti_sweep *sweep, struct tutti_ranking_row *row, uint32_t last)
{
    for (uint32_t i = 0; i < sweep->algorithm_count; i++) {
        uint32_t place = row->place_count;

        if (point_of(sweep, row->size_index, i)->status < 0)
            continue;
        for (; place > 0 && is_before(sweep, row->size_index, i, row->places[place - 1], last);
             place--)
            row->places[place] = row->places[place - 1];
        row->places[place] = i;
        row->place_count++;
    }
}

int tutti_ranking_open(const struct tutti_sweep *sweep, struct tutti_ranking *ret,
                       struct tutti_err *err)
{
    struct tutti_ranking ranking = {.sweep = sweep};
    uint32_t last_winner = UINT32_MAX;
    uint64_t last_count = 0;

    ranking.rows = calloc(sweep->sizes.count, sizeof(*ranking.rows));
    if (ranking.rows == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < TUTTI_SWEEP_ALGORITHMS_MAX; i++)
        ranking.letters[i] = (char)(i < 26 ? 'A' + (int)i : 'a' + (int)(i - 26));
    for (uint32_t i = 0; i < sweep->sizes.count; i++) {
        struct tutti_ranking_row *row = &ranking.rows[ranking.row_count];
        uint64_t count = point_of(sweep, i, 0)->count;
        bool only = i + 1 == sweep->sizes.count && ranking.row_count == 0;

        if (count == last_count && !only)
            continue;
        last_count = count;
        *row = (struct tutti_ranking_row){.size_index = i};
        rank_row(sweep, row, last_winner);
        assert(row->place_count > 0); /* else the sweep had failed */
        last_winner = row->places[0];
        ranking.row_count++;
    }
    *ret = ranking;
    return 0;
}

void tutti_ranking_close(struct tutti_ranking *ranking)
{
    free(ranking->rows);
    ranking->rows = NULL;
    ranking->row_count = 0;
}

bool tutti_ranking_next_win(const struct tutti_ranking *ranking, uint32_t *row,
                            struct tutti_win *ret)
{
    uint32_t end = *row;

    if (*row >= ranking->row_count)
        return false;
    while (end < ranking->row_count &&
           ranking->rows[end].places[0] == ranking->rows[*row].places[0])
        end++;
    *ret = (struct tutti_win){
        .algorithm = ranking->rows[*row].places[0],
        .first_row = *row,
        .last_row = end - 1,
        .from_bytes = tutti_ranking_at(ranking, *row, 0)->answer.bytes,
        .to_bytes = tutti_ranking_at(ranking, end - 1, 0)->answer.bytes,
    };
    *row = end;
    return true;
}
