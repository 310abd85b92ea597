/* Finds the other processes of a run, or starts them; see join.h. */
#include "tools/run/join.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "runtime/meet.h"
#include "tools/run/children.h"
#include "tools/run/hosts.h"
#include "tools/run/pmix.h"

/* How long processes that a failure has not ended are given to report what they know of it. */
static const tutti_ps GRACE_PS = 3 * TUTTI_PS_PER_S;

enum { PORT_FIRST = 20000, PORT_COUNT = 12000, LINE_BYTES = 16384, COMMAND_BYTES = 4096 };

/* ---- who this is ----------------------------------------------------------------------------- */

static int check_options(const struct tutti_args *args, struct tutti_err *err)
{
    static const char *const alone[] = {"rendezvous", "launcher", "hosts"};

    for (size_t i = 0; i < sizeof(alone) / sizeof(alone[0]); i++) {
        if (tutti_args_given(args, "launch") && tutti_args_given(args, alone[i]))
            return tutti_fail(err, TUTTI_EINVAL,
                              "options '--launch' and '--%s' contradict each other (one of them)",
                              alone[i]);
    }
    if (tutti_args_given(args, "hosts") && tutti_args_given(args, "launcher"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "options '--hosts' and '--launcher' contradict each "
                          "other (one of them)");
    if (tutti_args_flag(args, "dry-run") && !tutti_args_given(args, "hosts"))
        return tutti_fail(err, TUTTI_EINVAL, "option '--dry-run' says nothing without '--hosts'");
    return 0;
}

/* Who starts processes of his own within those of a launcher would have as many runs. */
static int check_alone(const char *option, struct tutti_err *err)
{
    struct tutti_launch launch;
    int status = tutti_launch_read(&tutti_env_process, NULL, &launch, err);

    if (status == 0 && launch.count > 1)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '%s': %s has started this process already, as one of %u "
                          "(one launcher, not both)",
                          option, launch.by, launch.count);
    return status;
}

static void print_root(struct tutti_join *join, const char *host, uint16_t port)
{
    bool bracket = strchr(host, ':') != NULL;

    (void)snprintf(join->root, sizeof(join->root), "%s%s%s:%u", bracket ? "[" : "", host,
                   bracket ? "]" : "", port);
}

/* The option, the launcher, or nothing yet. */
static int read_root(const struct tutti_args *args, struct tutti_join *join, struct tutti_err *err)
{
    const struct tutti_launch *launch = &join->launch;
    const char *text = tutti_args_text(args, "rendezvous");
    char host[TUTTI_LAUNCH_HOST_BYTES];
    uint16_t port;
    int status = 0;

    if (text != NULL)
        status = tutti_launch_address("option '--rendezvous'", text, host, &port, err);
    if (status < 0)
        return status;
    if (text != NULL)
        print_root(join, host, port);
    else if (launch->root_host[0] != '\0' && launch->root_port != 0)
        print_root(join, launch->root_host, launch->root_port);
    else if (!tutti_launch_can_share(launch) && !tutti_pmix_is_there(&tutti_env_process))
        return tutti_fail(err, TUTTI_EINVAL,
                          "%s says that this is process %u of %u, and not where process 0 is: "
                          "'--rendezvous HOST:PORT' or TUTTI_ROOT",
                          launch->by, launch->index, launch->count);
    return 0;
}

/* Whether the command has such an option, and it is given. */
static bool is_given(const struct tutti_args *args, const char *name)
{
    for (size_t i = 0; i < args->command->option_count; i++)
        if (strcmp(args->command->options[i].name, name) == 0)
            return args->values[i].given;
    return false;
}

/* What the option says or stands for; 0 where the command has none. */
static uint32_t count_of(const struct tutti_args *args, const char *name)
{
    for (size_t i = 0; i < args->command->option_count; i++)
        if (strcmp(args->command->options[i].name, name) == 0)
            return (uint32_t)tutti_args_number(args, name);
    return 0;
}

/* "2:4": 2. */
static uint32_t least_of(const struct tutti_args *args)
{
    return is_given(args, "elastic") ? (uint32_t)strtoul(tutti_args_text(args, "elastic"), NULL, 10)
                                     : 0;
}

/* One that comes to others who have begun: by itself. */
static int read_entry(const struct tutti_args *args, struct tutti_join *join, struct tutti_err *err)
{
    char host[TUTTI_LAUNCH_HOST_BYTES];
    uint16_t port;
    int status =
        tutti_launch_address("option '--join'", tutti_args_text(args, "join"), host, &port, err);

    if (status < 0)
        return status;
    join->launch = (struct tutti_launch){
        .name = "plain", .by = "option '--join'", .member = true, .count = 1, .host_count = 1};
    join->enters = true;
    print_root(join, host, port);
    return 0;
}

bool tutti_join_meets_again(const struct tutti_join *join)
{
    return join->restarts > 0 && join->least == 0;
}

/* Who is lost must find the others where they were: not where a launcher carries addresses about as
 * processes start, and ends all of a job where one is lost. */
static int check_restarts(const struct tutti_join *join, struct tutti_err *err)
{
    if (!tutti_join_meets_again(join) || !join->launch.member || join->launch.count == 1 ||
        join->root[0] != '\0')
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "option '--restarts': %s says not where process 0 is, to meet there again "
                      "('--launch N', '--rendezvous HOST:PORT', TUTTI_ROOT or TF_CONFIG)",
                      join->launch.by);
}

int tutti_join_read(const struct tutti_args *args, tutti_ps deadline_ps, struct tutti_join *ret,
                    struct tutti_err *err)
{
    struct tutti_join join = {
        .command = args->command->name,
        .interface = tutti_args_text(args, "interface"),
        .open_to_all = tutti_args_flag(args, "open"),
        .listen_fd = -1,
        .deadline_ps = deadline_ps,
        .save_ps = is_given(args, "checkpoint") || is_given(args, "elastic") ? deadline_ps : 0,
        .least = least_of(args),
        .restarts = count_of(args, "restarts"),
        .stop_code = (int)count_of(args, "stop-code")};
    bool launches = tutti_args_given(args, "launch");
    bool starts = launches || tutti_args_given(args, "hosts");
    bool enters = is_given(args, "join");
    int status = check_options(args, err);

    if (status == 0 && starts)
        status = check_alone(launches ? "--launch" : "--hosts", err);
    if (status == 0)
        status = tutti_meet_secret(&tutti_env_process, join.secret, err);
    if (status == 0 && enters)
        status = read_entry(args, &join, err);
    if (status == 0 && !starts && !enters)
        status = tutti_launch_read(&tutti_env_process, tutti_args_text(args, "launcher"),
                                   &join.launch, err);
    if (status == 0 && !starts && join.launch.count == 0)
        status = tutti_fail(err, TUTTI_EINVAL,
                            "%s says that this is process %u, and not of how many: TUTTI_SIZE",
                            join.launch.by, join.launch.index);
    if (status == 0 && !starts && join.launch.member && join.launch.count > 1)
        status = read_root(args, &join, err);
    if (status == 0 && !starts)
        status = check_restarts(&join, err);
    if (status == 0)
        *ret = join;
    return status;
}

/* ---- starting -------------------------------------------------------------------------------- */

/* What the exit code of a process was made of. */
static int status_of(int code)
{
    return code == 0 ? 0 : code == 2 ? -TUTTI_EINVAL : code == 77 ? -TUTTI_ELACK : -TUTTI_EIO;
}

/* As the processes that it has started: the messages are theirs, and so is, where they save, a code
 * of their own choice (tutti_sink.exit_code). */
static int end_with(const struct tutti_join *join, int code, struct tutti_sink *sink,
                    struct tutti_err *err)
{
    enum { SSH_FAILED = 255 };

    if (code != 0 && err != NULL)
        err->text[0] = '\0';
    if (join->save_ps == 0 || code <= 2 || code == 77 || code == SSH_FAILED)
        return status_of(code);
    sink->exit_code = code;
    return 0;
}

/* Listens for process 0, on this host alone: nobody else can take the port in between. */
static int listen_here(struct tutti_join *join, const char *root, struct tutti_err *err)
{
    const struct tutti_group_tcp_opts opts = {.size = sizeof(opts),
                                              .count = join->launch.count,
                                              .root = root,
                                              .bind = join->interface,
                                              .secret = join->secret,
                                              .secret_bytes = strlen(join->secret),
                                              .open_to_all = join->open_to_all};
    int status = tutti_group_tcp_listen(&opts, &join->listen_fd, join->root, err);
    join->listens = status == 0;
    return status;
}

static void be_child(struct tutti_join *join, uint32_t index)
{
    join->launch.index = join->launch.local_index = index;
    join->listens = index == 0 && join->listen_fd >= 0;
    if (!join->listens && join->listen_fd >= 0)
        close(join->listen_fd);
}

static int launch_here(uint32_t count, struct tutti_join *join, bool *ret_started,
                       struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_children *children = NULL;
    bool child = false;
    int status = join->secret[0] == '\0' ? tutti_meet_draw_secret(join->secret, err) : 0;
    uint32_t index = 0;
    uint32_t again;
    int code;

    join->launch = (struct tutti_launch){.name = "tutti",
                                         .by = "option '--launch'",
                                         .member = true,
                                         .count = count,
                                         .local_count = count,
                                         .host_count = 1};
    if (status == 0)
        status = listen_here(join, "127.0.0.1:0", err);
    if (status == 0)
        status = tutti_children_new(join->command, count, sink, &children, err);
    if (status == 0 && join->least > 0)
        tutti_children_spare(children, join->least, join->stop_code);
    for (; status == 0 && index < count && !child; index++)
        status = tutti_children_start(children, &child, err);
    if (child) {
        be_child(join, index - 1);
        return 0;
    }
    if (join->listen_fd >= 0 && !tutti_join_meets_again(join)) {
        close(join->listen_fd);
        join->listen_fd = -1;
    }
    *ret_started = true;
    if (children == NULL)
        return status;
    tutti_children_let_save(children, join->save_ps);
    tutti_children_restart(children, join->restarts, join->stop_code);
    code = tutti_children_keep(children, GRACE_PS, &again);
    if (again != TUTTI_CHILDREN_NONE) {
        *ret_started = false;
        join->again = true;
        be_child(join, again);
        return 0;
    }
    return status < 0 ? status : end_with(join, code, sink, err);
}

/* The words of this command, but for those that are of its own start. */
static int print_command(const struct tutti_args *args, char *line, size_t line_bytes,
                         struct tutti_err *err)
{
    static const char *const own[] = {"hosts", "dry-run", "rendezvous"};
    const struct tutti_command *command = args->command;
    bool complete = tutti_shell_add(line, line_bytes, command->name);

    for (size_t i = 0; i < command->option_count && complete; i++) {
        const struct tutti_option *option = &command->options[i];
        char name[64];
        bool passed = args->values[i].given;

        for (size_t k = 0; k < sizeof(own) / sizeof(own[0]); k++)
            passed = passed && strcmp(option->name, own[k]) != 0;
        (void)snprintf(name, sizeof(name), "--%s", option->name);
        if (passed)
            complete = tutti_shell_add(line, line_bytes, name);
        if (passed && option->type != TUTTI_OPTION_FLAG)
            complete = complete && tutti_shell_add(line, line_bytes, args->values[i].text);
    }
    if (!complete)
        return tutti_fail(err, TUTTI_EINVAL, "this command has more than %zu characters",
                          line_bytes);
    return 0;
}

/* Where process 0 is to listen: at the first host, unless it is said. */
static int choose_root(const struct tutti_args *args, const struct tutti_hosts *hosts,
                       struct tutti_join *join, struct tutti_err *err)
{
    const char *text = tutti_args_text(args, "rendezvous");
    const char *name = hosts->hosts[0].name;
    char host[TUTTI_LAUNCH_HOST_BYTES];
    uint16_t port = 0;
    int status = 0;

    if (text != NULL)
        status = tutti_launch_address("option '--rendezvous'", text, host, &port, err);
    if (status < 0)
        return status;
    if (text != NULL) {
        print_root(join, host, port);
        return 0;
    }
    if (getrandom(&port, sizeof(port), 0) != (ssize_t)sizeof(port))
        return tutti_fail(err, TUTTI_EIO, "cannot draw a port: %s", strerror(errno));
    if (strchr(name, '@') != NULL)
        name = strchr(name, '@') + 1;
    (void)snprintf(host, sizeof(host), "%s", name[0] == '[' ? name + 1 : name);
    host[strcspn(host, "]")] = '\0';
    print_root(join, host, (uint16_t)(PORT_FIRST + port % PORT_COUNT));
    return 0;
}

static int run_line(const char *command, struct tutti_children *children, const char *line,
                    const char *secret, struct tutti_sink *sink, struct tutti_err *err)
{
    bool child = false;
    int status = tutti_children_start(children, &child, err);

    if (!child)
        return status;
    (void)setenv("TUTTI_SECRET", secret, 1);
    (void)execl("/bin/sh", "sh", "-c", line, (char *)NULL);
    fprintf(sink->notes, "tutti %s: cannot run '/bin/sh': %s\n", command, strerror(errno));
    _exit(1);
}

/* Prints all lines; runs them unless it is dry. */
static int run_lines(const struct tutti_join *join, const struct tutti_hosts *hosts,
                     const struct tutti_hosts_line *line, bool dry, struct tutti_sink *sink,
                     struct tutti_err *err)
{
    struct tutti_children *children = NULL;
    char text[LINE_BYTES];
    int status = 0;
    int code;

    if (!dry)
        status = tutti_children_new(join->command, hosts->process_count, sink, &children, err);
    for (uint32_t i = 0; status == 0 && i < hosts->process_count; i++) {
        status = tutti_hosts_print(hosts, line, i, text, sizeof(text), err);
        if (status == 0)
            fprintf(dry ? sink->out : sink->notes, "%s\n", text);
        if (status == 0 && !dry)
            status = run_line(join->command, children, text, join->secret, sink, err);
    }
    if (children == NULL)
        return status;
    code = tutti_children_wait(children, GRACE_PS);
    return status < 0 ? status : end_with(join, code, sink, err);
}

static int launch_there(const struct tutti_args *args, struct tutti_join *join,
                        struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_hosts *hosts = calloc(1, sizeof(*hosts));
    const char *ssh = getenv("TUTTI_SSH");
    char program[1024] = "tutti";
    char command[COMMAND_BYTES] = "";
    struct tutti_hosts_line line = {.program = program,
                                    .command = command,
                                    .root = join->root,
                                    .ssh = ssh != NULL && ssh[0] != '\0' ? ssh
                                                                         : "ssh -o BatchMode=yes"};
    char path[1024];
    ssize_t bytes = readlink("/proc/self/exe", path, sizeof(path) - 1);
    int status = hosts == NULL ? tutti_nomem(err) : 0;

    if (bytes > 0) {
        path[bytes] = '\0';
        program[0] = '\0';
        if (!tutti_shell_add(program, sizeof(program), path))
            (void)snprintf(program, sizeof(program), "tutti");
    }
    if (status == 0)
        status = tutti_hosts_read(tutti_args_text(args, "hosts"), hosts, err);
    if (status == 0)
        status = choose_root(args, hosts, join, err);
    if (status == 0)
        status = print_command(args, command, sizeof(command), err);
    if (status == 0 && !tutti_args_flag(args, "dry-run") && join->secret[0] == '\0')
        status = tutti_meet_draw_secret(join->secret, err);
    if (status == 0)
        status = run_lines(join, hosts, &line, tutti_args_flag(args, "dry-run"), sink, err);
    free(hosts);
    return status;
}

int tutti_join_start(const struct tutti_args *args, struct tutti_join *join, bool *ret_started,
                     struct tutti_sink *sink, struct tutti_err *err)
{
    *ret_started = tutti_args_given(args, "hosts");
    if (*ret_started)
        return launch_there(args, join, sink, err);
    if (tutti_args_given(args, "launch"))
        return launch_here((uint32_t)strtoul(tutti_args_text(args, "launch"), NULL, 10), join,
                           ret_started, sink, err);
    return 0;
}

/* ---- meeting --------------------------------------------------------------------------------- */

/* From a thread of the group. */
static void say(void *data, const char *line)
{
    const struct tutti_sink *sink = data;

    fprintf(sink->notes, "tutti %s: %s\n", sink->command, line);
}

static int enter(const struct tutti_join *join, struct tutti_sink *sink, struct tutti_group **ret,
                 struct tutti_err *err)
{
    const struct tutti_group_tcp_opts opts = {
        .size = sizeof(opts),
        .root = join->root,
        .bind = join->interface,
        .secret = join->secret[0] != '\0' ? join->secret : NULL,
        .secret_bytes = strlen(join->secret),
        .open_to_all = join->open_to_all,
        .deadline_ps = join->deadline_ps,
        .stall_ps = join->deadline_ps / 4 * 3,
        .log = say,
        .log_data = sink,
    };

    return tutti_group_tcp_join(&opts, ret, err);
}

int tutti_join_group(struct tutti_join *join, struct tutti_sink *sink, struct tutti_group **ret,
                     struct tutti_err *err)
{
    const struct tutti_meet_opts opts = {
        .size = sizeof(opts),
        .launch = &join->launch,
        .root = join->root,
        .bind = join->interface,
        .secret = join->secret,
        .open_to_all = join->open_to_all,
        .has_listen_fd = join->listens,
        .listen_fd = join->listens && tutti_join_meets_again(join)
                         ? fcntl(join->listen_fd, F_DUPFD_CLOEXEC, 0)
                         : join->listen_fd,
        .again = tutti_join_meets_again(join),
        .admits = join->least > 0 && join->root[0] != 0,
        .deadline_ps = join->deadline_ps,
        .log = say,
        .log_data = sink,
        .share = tutti_pmix_is_there(&tutti_env_process) ? tutti_pmix_share : NULL,
    };
    int status;

    assert(join->launch.member);
    assert(err != NULL);
    sink->command = join->command;
    if (join->least > 0 && (join->enters || join->again))
        return enter(join, sink, ret, err);
    status = tutti_meet(&opts, ret, err);
    /* Refused, as one who was in it before, or is one more: those who have begun let it in. */
    if (status == -TUTTI_EINVAL && join->least > 0 && join->launch.index > 0 &&
        enter(join, sink, ret, NULL) == 0)
        status = 0;
    if (status == -TUTTI_EINVAL && join->secret[0] == '\0' && strstr(err->text, "secret") != NULL)
        (void)snprintf(err->text + strlen(err->text), sizeof(err->text) - strlen(err->text),
                       " (TUTTI_SECRET, the same for all, or '--open')");
    join->listens = join->listens && tutti_join_meets_again(join);
    return status;
}

void tutti_join_done(struct tutti_join *join)
{
    if (join->listens)
        close(join->listen_fd);
    join->listens = false;
}

/* ---- naming the others ----------------------------------------------------------------------- */

enum { TASKS_MAX = 4 }; /* named in one message */

/* The number at `*at` and what comes behind it, if that goes on: "1, 2 and 3". */
static bool read_number(const char **at, uint32_t *ret)
{
    char *end;

    if (**at < '0' || **at > '9')
        return false;
    *ret = (uint32_t)strtoul(*at, &end, 10);
    *at = end;
    if (strncmp(end, ", ", 2) == 0)
        *at += 2;
    else if (strncmp(end, " and ", 5) == 0)
        *at += 5;
    return true;
}

static void add_task(const struct tutti_launch *launch, uint32_t index, uint32_t *named,
                     uint32_t *named_count, struct tutti_err *err)
{
    size_t used = strlen(err->text);
    char task[320];

    for (uint32_t i = 0; i < *named_count; i++)
        if (named[i] == index)
            return;
    if (index == launch->index || *named_count == TASKS_MAX ||
        !tutti_launch_task(&tutti_env_process, launch, index, task, sizeof(task)))
        return;
    named[(*named_count)++] = index;
    (void)snprintf(err->text + used, sizeof(err->text) - used, " (process %u is %s)", index, task);
}

void tutti_join_name_tasks(const struct tutti_launch *launch, struct tutti_err *err)
{
    static const char word[] = "process";
    uint32_t named[TASKS_MAX];
    uint32_t named_count = 0;
    char text[TUTTI_ERR_TEXT_BYTES];
    const char *at = text;

    if (launch->name == NULL || err == NULL)
        return;
    memcpy(text, err->text, sizeof(text));
    while ((at = strstr(at, word)) != NULL) {
        uint32_t index;

        at += strlen(word);
        at += strncmp(at, "es", 2) == 0 ? 2 : 0;
        at += *at == ' ';
        while (read_number(&at, &index))
            add_task(launch, index, named, &named_count, err);
    }
}
