/* Intervals of steps by measured ones; see interval.h. */
#include "tools/train/interval.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/status.h"

enum { LINE_BYTES = 256 };

static const char any[] = "any";

static int parse_line(const char *line, struct tutti_interval *ret, struct tutti_err *err)
{
    struct tutti_interval i = {.row_count = 0};
    char hosts[16] = "", anchor[16] = "", words[2][16] = {"", ""};
    int count = sscanf(line, "%23s %23s %15s %15s %" SCNu32 " %" SCNu32 " %lf %lf %15s %15s",
                       i.framework, i.precision, hosts, anchor, &i.row_count, &i.family_count,
                       &i.low, &i.high, words[0], words[1]);
    bool known = count >= 8;

    for (int w = 0; w < count - 8; w++) {
        i.fitted |= strcmp(words[w], "fitted") == 0;
        i.divided |= strcmp(words[w], "divided") == 0;
        known &= strcmp(words[w], "fitted") == 0 || strcmp(words[w], "divided") == 0;
    }
    if (!known)
        return tutti_fail(
            err, TUTTI_EINVAL,
            "'%.60s' (FRAMEWORK PRECISION HOSTS ANCHOR ROWS FAMILIES P10 P90 [fitted] "
            "[divided])",
            line);
    if ((strcmp(hosts, "one") != 0 && strcmp(hosts, "several") != 0) ||
        (strcmp(anchor, "none") != 0 && strcmp(anchor, "anchored") != 0))
        return tutti_fail(err, TUTTI_EINVAL, "'%s %s' (one or several; none or anchored)", hosts,
                          anchor);
    if (!(i.low > 0) || !(i.high >= i.low) || i.row_count == 0)
        return tutti_fail(err, TUTTI_EINVAL, "'%.60s' (rows, and 0 < P10 <= P90)", line);
    i.several_hosts = strcmp(hosts, "several") == 0;
    i.anchored = strcmp(anchor, "anchored") == 0;
    *ret = i;
    return 0;
}

int tutti_interval_parse(const char *name, const char *text, size_t bytes,
                         struct tutti_interval ret[TUTTI_INTERVALS_MAX], size_t *ret_count,
                         struct tutti_err *err)
{
    const char *end = text + bytes;
    uint32_t number = 0;

    *ret_count = 0;
    for (const char *at = text; at < end;) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((next == NULL ? end : next) - at);
        char line[LINE_BYTES];
        int status;

        number++;
        (void)snprintf(line, sizeof(line), "%.*s", (int)(length < LINE_BYTES ? length : LINE_BYTES),
                       at);
        at += length + 1;
        if (line[0] == '#' || line[strspn(line, " \t")] == '\0')
            continue;
        if (*ret_count == TUTTI_INTERVALS_MAX)
            return tutti_fail(err, TUTTI_EINVAL, "%s: line %u: '%.40s' is one too many (%d)", name,
                              number, line, TUTTI_INTERVALS_MAX);
        status = parse_line(line, &ret[*ret_count], err);
        if (status < 0)
            return tutti_wrap(err, status, "%s: line %u", name, number);
        (*ret_count)++;
    }
    return 0;
}

static const struct tutti_interval *find(const struct tutti_interval *intervals, size_t count,
                                         const struct tutti_interval *wanted, const char *framework,
                                         const char *precision)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(intervals[i].framework, framework) == 0 &&
            strcmp(intervals[i].precision, precision) == 0 &&
            intervals[i].several_hosts == wanted->several_hosts &&
            intervals[i].anchored == wanted->anchored && intervals[i].divided == wanted->divided)
            return &intervals[i];
    return NULL;
}

/* Of the precision wanted, or of both. */
static const struct tutti_interval *find_framework(const struct tutti_interval *intervals,
                                                   size_t count,
                                                   const struct tutti_interval *wanted)
{
    const struct tutti_interval *found =
        find(intervals, count, wanted, wanted->framework, wanted->precision);

    return found != NULL ? found : find(intervals, count, wanted, wanted->framework, any);
}

bool tutti_interval_find(const struct tutti_interval *intervals, size_t count,
                         const struct tutti_interval *wanted, struct tutti_interval *ret)
{
    const struct tutti_interval *found = find_framework(intervals, count, wanted);

    if (found == NULL && !wanted->divided) {
        struct tutti_interval divided = *wanted;

        divided.divided = true;
        found = find_framework(intervals, count, &divided);
    }
    if (found == NULL)
        found = find(intervals, count, wanted, any, any);
    if (found != NULL)
        *ret = *found;
    return found != NULL;
}
