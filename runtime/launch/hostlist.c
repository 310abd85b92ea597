/* Expands Slurm's short forms one entry at a time; see hostlist.h. */
#include "runtime/launch/hostlist.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "runtime/status.h"

enum { DIGITS_MAX = 9, BRACKETS_MAX = 4 };

static int refuse(const char *list, struct tutti_err *err)
{
    return tutti_fail(err, TUTTI_EINVAL,
                      "not a list of hosts '%.200s' (as 'gnode[10,20-25],login')", list);
}

/* A number of at most DIGITS_MAX digits; false if there is none. */
static bool read_number(const char **at, uint32_t *ret, int *ret_digits)
{
    int digits = 0;

    for (*ret = 0; **at >= '0' && **at <= '9' && digits <= DIGITS_MAX; (*at)++, digits++)
        *ret = 10 * *ret + (uint32_t)(**at - '0');
    *ret_digits = digits;
    return digits > 0 && digits <= DIGITS_MAX;
}

/* Of "10,20-25" up to the bracket: how many there are. With `text`, number `index` is written to
 * it. Leaves *at behind the bracket. */
static bool read_bracket(const char **at, uint32_t index, uint32_t *ret_count, char *text,
                         size_t text_bytes)
{
    uint32_t count = 0;

    for (bool more = true; more; more = *(*at)++ == ',') {
        uint32_t first;
        uint32_t last;
        int width;
        int digits;

        if (!read_number(at, &first, &width))
            return false;
        last = first;
        if (**at == '-') {
            (*at)++;
            if (!read_number(at, &last, &digits) || last < first)
                return false;
        }
        if (last - first >= TUTTI_HOSTLIST_COUNT_MAX - count)
            return false;
        if (text != NULL && index >= count && index - count <= last - first)
            (void)snprintf(text, text_bytes, "%0*u", width, first + (index - count));
        count += last - first + 1;
        if (**at != ',' && **at != ']')
            return false;
    }
    *ret_count = count;
    return true;
}

static bool may_stand(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == ':';
}

/* One element of the list, "a[1-2]b[3-4]", up to its comma: how many hosts it stands for. With
 * `name`, the one of number `index` is written, the last bracket turning fastest. */
static bool read_element(const char **at, uint32_t index, uint32_t *ret_count, char *name,
                         size_t name_bytes)
{
    uint32_t counts[BRACKETS_MAX];
    const char *start = *at;
    size_t brackets = 0;
    uint64_t count = 1;
    size_t used = 0;
    size_t bracket = 0;

    while (**at != ',' && **at != '\0') {
        if (**at != '[') {
            if (!may_stand(*(*at)++))
                return false;
            continue;
        }
        (*at)++;
        if (brackets == BRACKETS_MAX || !read_bracket(at, 0, &counts[brackets], NULL, 0))
            return false;
        count *= counts[brackets++];
        if (count > TUTTI_HOSTLIST_COUNT_MAX)
            return false;
    }
    if (*at == start)
        return false;
    *ret_count = (uint32_t)count;
    for (const char *p = start; name != NULL && p < *at && used + 1 < name_bytes;) {
        uint32_t below = 1;
        uint32_t ignored;

        if (*p != '[') {
            name[used++] = *p++;
            continue;
        }
        for (size_t i = ++bracket; i < brackets; i++)
            below *= counts[i];
        p++;
        name[used] = '\0';
        (void)read_bracket(&p, index / below % counts[bracket - 1], &ignored, name + used,
                           name_bytes - used);
        used += strlen(name + used);
    }
    if (name != NULL)
        name[used] = '\0';
    return true;
}

/* Both at once: counts all, or finds one. */
static int walk(const char *list, uint32_t wanted, char *name, size_t name_bytes, uint32_t *ret,
                struct tutti_err *err)
{
    const char *at = list;
    uint32_t count = 0;

    for (bool more = true; more; more = *at != '\0') {
        const char *start = at;
        uint32_t here = 0;

        at += count > 0 && *at == ',';
        start = at;
        if (!read_element(&at, 0, &here, NULL, 0) || here > TUTTI_HOSTLIST_COUNT_MAX - count)
            return refuse(list, err);
        if (name != NULL && wanted >= count && wanted - count < here)
            (void)read_element(&start, wanted - count, &here, name, name_bytes);
        count += here;
    }
    *ret = count;
    return 0;
}

int tutti_hostlist_count(const char *list, uint32_t *ret, struct tutti_err *err)
{
    return walk(list, 0, NULL, 0, ret, err);
}

int tutti_hostlist_at(const char *list, uint32_t index, char *ret, size_t ret_bytes,
                      struct tutti_err *err)
{
    uint32_t count = 0;
    int status = walk(list, index, ret, ret_bytes, &count, err);

    if (status == 0 && index >= count)
        return tutti_fail(err, TUTTI_EINVAL, "no host number '%u' in '%.200s' (0 to %u)", index,
                          list, count - 1);
    return status;
}

int tutti_repeated_at(const char *list, uint32_t index, uint32_t *ret, struct tutti_err *err)
{
    const char *at = list;
    uint64_t seen = 0;
    bool found = false;

    for (bool more = true; more && !found; more = *at++ == ',') {
        uint32_t value;
        uint32_t times = 1;
        int digits;
        bool sound = read_number(&at, &value, &digits);

        if (sound && strncmp(at, "(x", 2) == 0) {
            at += 2;
            sound = read_number(&at, &times, &digits) && *at == ')';
            at += sound;
        }
        if (!sound || (*at != ',' && *at != '\0'))
            return tutti_fail(err, TUTTI_EINVAL, "not a list of counts '%.200s' (as '4(x2),3')",
                              list);
        seen += times;
        found = index < seen;
        if (found)
            *ret = value;
    }
    if (!found)
        return tutti_fail(err, TUTTI_EINVAL, "no count number '%u' in '%.200s'", index, list);
    return 0;
}
