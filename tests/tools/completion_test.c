/* What `tutti completion` prints: bash completes with it, and every option of every command is
 * there; zsh and fish take it where they are. */
#include "tests/test.h"
#include "tests/tools/commands.h"
#include "tools/options.h"

#define SCRIPT "'" TUTTI_BINARY_DIR "/tutti' completion "

/* What bash completes these words with; the last is the one that is being typed. */
static struct seen complete(const char *words)
{
    char command[1024];

    snprintf(command, sizeof(command),
             "cat >/tmp/tutti-complete-$$ <<'END'\n"
             "eval \"$(" SCRIPT "bash)\"\n"
             "COMP_WORDS=(tutti %s)\n"
             "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
             "_tutti\n"
             "echo \"${COMPREPLY[*]}\"\n"
             "END\n"
             "bash /tmp/tutti-complete-$$; code=$?; rm -f /tmp/tutti-complete-$$; exit $code",
             words);
    return run(command);
}

static void completes(const char *words, const char *expected)
{
    struct seen seen = complete(words);

    CHECK_INT(seen.exit, 0);
    CHECK_TEXT(text_of(&seen.err), "");
    CHECK_TEXT(text_of(&seen.out), expected);
    seen_done(&seen);
}

TEST(bash_completes_commands)
{
    completes("pre", "predict\n");
    completes("to", "topo\n");
    completes("topo ''", "list show bound convert\n");
    completes("topo b", "bound\n");
    completes("schedule c", "check convert\n");
    completes("model ''", "list show\n");
    completes("model show resnet5", "resnet50 resnet50-v1\n");
    completes("xyz", "\n");
}

TEST(bash_completes_what_comes_behind)
{
    completes("predict dgx-h", "dgx-h100\n");
    completes("predict dgx-h100 --alg", "--algorithm\n");
    completes("predict dgx-h100 -c all", "allreduce allgather alltoall\n");
    completes("predict dgx-h100 -a double", "double-binary-tree\n");
    completes("predict dgx-h100 -d b", "bfloat16\n");
    completes("predict dgx-h100 --format ''", "table json csv\n");
    completes("run -B t", "threads tcp\n");
    completes("run --emulate mi3", "mi300x\n");
    completes("completion f", "fish\n");
    completes("predict -b 1", "\n");
}

/* A word that is a blank, a letter and so on is looked for between blanks. */
static bool has_word(const char *text, const char *word)
{
    size_t bytes = strlen(word);

    for (const char *p = strstr(text, word); p != NULL; p = strstr(p + 1, word)) {
        if ((p == text || p[-1] == ' ') && (p[bytes] == ' ' || p[bytes] == '\n'))
            return true;
    }
    return false;
}

TEST(bash_knows_every_option)
{
    size_t count = 0;
    const struct tutti_command *const *commands = tutti_commands(&count);

    for (size_t i = 0; i < count; i++) {
        char words[128];
        struct seen seen;

        snprintf(words, sizeof(words), "%s -", commands[i]->name);
        seen = complete(words);
        for (size_t k = 0; k < commands[i]->option_count; k++) {
            char name[64];

            snprintf(name, sizeof(name), "--%s", commands[i]->options[k].name);
            if (!has_word(text_of(&seen.out), name))
                TEST_FAIL("tutti %s: %s is not completed", commands[i]->name, name);
        }
        seen_done(&seen);
    }
}

TEST(bash_knows_whom_it_completes)
{
    struct seen seen =
        run("bash -c 'eval \"$(" TUTTI_BINARY_DIR "/tutti completion bash)\"; complete -p tutti'");

    CHECK_TEXT(text_of(&seen.out), "complete -o filenames -F _tutti tutti\n");
    seen_done(&seen);
}

static bool is_there(const char *shell)
{
    char command[64];
    struct seen seen;
    bool there;

    snprintf(command, sizeof(command), "command -v %s >/dev/null", shell);
    seen = run(command);
    there = seen.exit == 0;
    seen_done(&seen);
    return there;
}

static void takes(const char *shell, const char *check)
{
    char command[512];
    struct seen seen;

    snprintf(command, sizeof(command), SCRIPT "%s | %s", shell, check);
    seen = run(command);
    CHECK_INT(seen.exit, 0);
    CHECK_TEXT(text_of(&seen.err), "");
    seen_done(&seen);
}

TEST(zsh_takes_its_own)
{
    if (!is_there("zsh"))
        SKIP("no zsh on this machine (apt install zsh)");
    takes("zsh", "zsh -n");
}

TEST(fish_takes_its_own)
{
    if (!is_there("fish"))
        SKIP("no fish on this machine (apt install fish)");
    takes("fish", "fish --no-execute");
}
