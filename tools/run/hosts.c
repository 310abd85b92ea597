/* Reads lists of hosts, and writes the lines of shell that start processes there; see hosts.h. */
#include "tools/run/hosts.h"

#include <stdio.h>
#include <string.h>

#include "runtime/units.h"

static bool is_name(const char *text, size_t bytes)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "-_.@:%[]";

    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '\0' || strchr(allowed, text[i]) == NULL)
            return false;
    }
    return bytes > 0 && bytes < TUTTI_LAUNCH_HOST_BYTES && text[0] != '-';
}

/* One of the list: "b:2", "[fd00::1]:2". */
static int read_one(const char *text, size_t bytes, struct tutti_host_entry *ret,
                    struct tutti_err *err)
{
    const char *bracket = memchr(text, ']', bytes);
    const char *from = bracket != NULL ? bracket : text;
    const char *colon = memchr(from, ':', bytes - (size_t)(from - text));
    size_t name_bytes = colon != NULL ? (size_t)(colon - text) : bytes;
    uint64_t count = 1;

    if (!is_name(text, name_bytes))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--hosts': no host '%.*s' (NAME, NAME:COUNT or [IPv6]:COUNT)",
                          (int)(bytes < 200 ? bytes : 200), text);
    if (colon != NULL) {
        char digits[16];
        size_t digit_bytes = bytes - name_bytes - 1;

        (void)snprintf(digits, sizeof(digits), "%.*s",
                       (int)(digit_bytes < sizeof(digits) ? digit_bytes : sizeof(digits) - 1),
                       colon + 1);
        if (tutti_read_count(digits, 1, TUTTI_HOSTS_PROCESSES_MAX, &count, err) < 0)
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '--hosts': '%.*s' processes on '%.*s' (1 to %d)",
                              (int)(digit_bytes < 40 ? digit_bytes : 40), colon + 1,
                              (int)name_bytes, text, TUTTI_HOSTS_PROCESSES_MAX);
    }
    memcpy(ret->name, text, name_bytes);
    ret->name[name_bytes] = '\0';
    ret->count = (uint32_t)count;
    return 0;
}

int tutti_hosts_read(const char *text, struct tutti_hosts *ret, struct tutti_err *err)
{
    ret->host_count = 0;
    ret->process_count = 0;
    for (bool more = true; more;) {
        size_t bytes = strcspn(text, ",");
        int status;

        if (ret->host_count == TUTTI_HOSTS_MAX)
            return tutti_fail(err, TUTTI_EINVAL, "option '--hosts': more than %d hosts",
                              TUTTI_HOSTS_MAX);
        status = read_one(text, bytes, &ret->hosts[ret->host_count], err);
        if (status < 0)
            return status;
        for (uint32_t i = 0; i < ret->host_count; i++) {
            if (strcmp(ret->hosts[i].name, ret->hosts[ret->host_count].name) == 0)
                return tutti_fail(err, TUTTI_EINVAL,
                                  "option '--hosts': '%s' is named twice (once, with a COUNT)",
                                  ret->hosts[i].name);
        }
        ret->process_count += ret->hosts[ret->host_count++].count;
        more = text[bytes] == ',';
        text += bytes + more;
    }
    if (ret->process_count > TUTTI_HOSTS_PROCESSES_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "option '--hosts': '%u' processes (at most %d)",
                          ret->process_count, TUTTI_HOSTS_PROCESSES_MAX);
    return 0;
}

/* ---- lines of shell -------------------------------------------------------------------------- */

static bool is_plain(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_.,:/@%+=";

    return word[0] != '\0' && word[strspn(word, plain)] == '\0';
}

bool tutti_shell_add(char *line, size_t line_bytes, const char *word)
{
    size_t used = strlen(line);
    bool plain = is_plain(word);

    if (used > 0 && used + 1 < line_bytes)
        line[used++] = ' ';
    if (!plain && used + 1 < line_bytes)
        line[used++] = '\'';
    for (; *word != '\0' && used + 5 < line_bytes; word++) {
        if (*word == '\'') { /* out of the quotes, and in again */
            memcpy(line + used, "'\\''", 4);
            used += 4;
        } else {
            line[used++] = *word;
        }
    }
    if (!plain && used + 1 < line_bytes)
        line[used++] = '\'';
    line[used < line_bytes ? used : line_bytes - 1] = '\0';
    return *word == '\0' && used + 1 < line_bytes;
}

/* As ssh takes it: an address of IPv6 without its brackets. */
static void print_target(const char *name, char ret[TUTTI_LAUNCH_HOST_BYTES])
{
    size_t used = 0;

    for (; *name != '\0'; name++) {
        if (*name != '[' && *name != ']')
            ret[used++] = *name;
    }
    ret[used] = '\0';
}

int tutti_hosts_print(const struct tutti_hosts *hosts, const struct tutti_hosts_line *line,
                      uint32_t index, char *ret, size_t ret_bytes, struct tutti_err *err)
{
    char target[TUTTI_LAUNCH_HOST_BYTES];
    char inner[8192];
    uint32_t host = 0;
    uint32_t before = 0;
    int length;
    bool complete;

    while (index >= before + hosts->hosts[host].count)
        before += hosts->hosts[host++].count;
    print_target(hosts->hosts[host].name, target);
    length = snprintf(inner, sizeof(inner),
                      "IFS= read -r TUTTI_SECRET; export TUTTI_SECRET; TUTTI_RANK=%u TUTTI_SIZE=%u "
                      "TUTTI_LOCAL_RANK=%u TUTTI_LOCAL_SIZE=%u TUTTI_ROOT=%s exec %s %s",
                      index, hosts->process_count, index - before, hosts->hosts[host].count,
                      line->root, line->program, line->command);
    complete = length > 0 && (size_t)length < sizeof(inner);
    length = snprintf(ret, ret_bytes, "printf '%%s\\n' \"$TUTTI_SECRET\" | %s", line->ssh);
    complete = complete && length > 0 && (size_t)length < ret_bytes &&
               tutti_shell_add(ret, ret_bytes, target) && tutti_shell_add(ret, ret_bytes, inner);
    if (!complete)
        return tutti_fail(err, TUTTI_EINVAL,
                          "the line that starts process %u is longer than %zu characters", index,
                          ret_bytes);
    return 0;
}
