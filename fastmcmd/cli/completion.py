"""Print a script with which a shell completes commands, options, choices, files and names of columns."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator

from fastmcmd.cli.prediction import CLASSES, DRAWS, FAMILIES, GENERAL, QUANTILES, SORTED_QUANTILES

HELP = "print a completion script for bash, zsh or fish"
EPILOG = """to have it in every new shell (folders must exist):
  fastmcmd completion bash > ~/.local/share/bash-completion/completions/fastmcmd
  fastmcmd completion zsh > _fastmcmd     (in a folder of $fpath)
  fastmcmd completion fish > ~/.config/fish/completions/fastmcmd.fish

without the package bash-completion:
  fastmcmd completion bash > ~/.fastmcmd.bash && echo '. ~/.fastmcmd.bash' >> ~/.bashrc
"""

_HELP_LENGTH = 60  # characters of help next to an option


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("shell", choices=tuple(_SHELLS), help="shell to complete in")


def run(arguments: argparse.Namespace) -> None:
    """Print the script."""
    from fastmcmd.cli.app import make_parser

    quote = _fish_quoted if arguments.shell == "fish" else shlex.quote
    print(_SHELLS[arguments.shell].replace("@ANSWER@", quote(answer(make_parser()))))


def answer(parser: argparse.ArgumentParser) -> str:
    """Return a program for ``sh`` that prints completions, one per line, with their help after a tab.

    Its arguments are the current word and the words before it. It does not start Python, whose imports take
    too long at a prompt. A single line ``@files .csv .npz`` asks the shell to complete files.
    """
    commands = next(a.choices for a in parser._actions if isinstance(a.choices, dict))
    helps = {c.dest: c.help or "" for a in parser._actions for c in _choices(a)}
    offers = [_say(name, helps[name]) for name in commands]
    cases = [f"    ' -'*) {_options(parser)} ;;", f"    ' '*) {'; '.join(offers)} ;;"]
    kinds = []
    for name, sub in commands.items():
        cases.append(f"    '{name} -'*) {_options(sub)} ;;")
        place = 0
        for action in sub._actions:
            if not action.option_strings:
                place += 1
                kinds.append(f"    '{name} {place}') kind={shlex.quote(_kind(action))} ;;")
            elif action.nargs != 0:
                labels = "|".join(f"'{name} {option}'" for option in action.option_strings)
                kinds.append(f"    {labels}) kind={shlex.quote(_kind(action))} ;;")
    families = [
        f"    {name}) parameters={shlex.quote(' '.join(family.parameters))} ;;"
        for name, family in FAMILIES.items()
    ]
    return (
        _ANSWER.replace("@KINDS@", "\n".join(kinds))
        .replace("@CASES@", "\n".join(cases))
        .replace("@PARAMETERS@", "\n".join(families))
        .replace("@FAMILIES@", " ".join([*FAMILIES, *GENERAL]))
        .replace("@DRAWS@", DRAWS)
        .replace("@QUANTILES@", f"{QUANTILES} | {SORTED_QUANTILES}")
        .replace("@CLASSES@", CLASSES)
    )


def _choices(action: argparse.Action) -> Iterator[argparse.Action]:
    """Yield the commands of an action with their help texts."""
    yield from getattr(action, "_choices_actions", ())


def _options(parser: argparse.ArgumentParser) -> str:
    return "; ".join(
        _say(option, action.help or "")
        for action in parser._actions
        for option in action.option_strings
        if option.startswith("--")
    )


def _say(word: str, text: str) -> str:
    return f"say {shlex.quote(word)} {shlex.quote(text[:_HELP_LENGTH].replace('%', ''))}"


def _kind(action: argparse.Action) -> str:
    """Return the kind of an argument, from its choices, its metavar and the file endings in its help."""
    if action.choices:
        return "words " + " ".join(map(str, action.choices))
    match action.metavar:
        case "COLUMN":
            return "column"
        case "COLUMNS":
            return "columns"
        case "SPEC":
            return "prediction"
        case "NAME=SPEC":
            return "model"
        case "FILE" | "TARGET" | "PNG":
            endings = re.findall(r"(?<!\w)\.[a-z]+", action.help or "")
            return " ".join(["files", *endings])
    return "anything"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_ANSWER = r"""
cur=$1 prefix= command= option= file= place=0 used=
shift
kind_of() {
    kind=
    case "$1 $2" in
@KINDS@
    esac
    [ -n "$kind" ]
}
say() {
    case $1 in "$cur"*) printf '%s%s\t%s\n' "$prefix" "$1" "$2" ;; esac
}
columns() {
    case $file in "~/"*) file=$HOME/${file#"~/"} ;; esac
    [ -r "$file" ] || return
    # The first line of a text; the names in a zip file; the folders in a folder.
    case $file in
    *.csv) head -c 65536 "$file" | cells ',' ;;
    *.tsv) head -c 65536 "$file" | cells '\t' ;;
    *.npz) unzip -Z1 "$file" 2>/dev/null | sed 's/\.npy$//' ;;
    *.zarr) for each in "$file"/*/; do each=${each%/}; printf '%s\n' "${each##*/}"; done ;;
    esac | sed 's/^ *//; s/ *$//' | while read -r name; do
        case $name in *[[:cntrl:]]*) continue ;; esac  # a terminal must not obey a file
        case $name,$used in ,*|*",$name,"*) ;; *) say "$name" '' ;; esac
    done
}
cells() {  # those of the first line, a line each; quotes are taken off as in the format
    LC_ALL=C awk -v sep="$1" 'NR == 1 {
        sub(/\r$/, "")
        if (substr($0, 1, 3) == "\357\273\277") $0 = substr($0, 4)
        cell = ""; quoted = 0; n = length($0)
        for (i = 1; i <= n; i++) {
            c = substr($0, i, 1)
            if (c == "\"" && quoted && substr($0, i + 1, 1) == "\"") { cell = cell c; i++ }
            else if (c == "\"") quoted = !quoted
            else if (c == sep && !quoted) { print cell; cell = "" }
            else cell = cell c
        }
        print cell
        exit
    }'
}
list() {
    case $cur in *,*) used=,${cur%,*}, prefix=$prefix${cur%,*}, cur=${cur##*,} ;; esac
    columns
}
after() {  # what begins with $1 is done
    prefix=$prefix$1 cur=${cur#"$1"}
}
prediction() {
    case $cur in
    *:*) family=${cur%%:*} ;;
    *) for each in @FAMILIES@; do say "$each:" ''; done; return ;;
    esac
    after "$family:"
    [ "$family" = @DRAWS@ ] && { list; return; }
    typed=$cur parameters=
    case $cur in *,*) after "${cur%,*}," ;; esac
    case $cur in *=*) after "${cur%%=*}="; columns; return ;; esac
    case $family in
@PARAMETERS@
    @QUANTILES@ | @CLASSES@) return ;;
    esac
    for each in $parameters; do
        case ,$typed in *,"$each="*) ;; *) say "$each=" '' ;; esac
    done
}
for word do
    if [ -n "$option" ]; then option=; continue; fi
    case $word in
    -*=*) ;;
    -*) if [ -n "$command" ] && kind_of "$command" "$word"; then option=$word; fi ;;
    *) if [ -z "$command" ]; then command=$word; else
        place=$((place + 1))
        [ -n "$file" ] || file=$word
    fi ;;
    esac
done
if [ -n "$option" ]; then
    kind_of "$command" "$option"
else
    case $cur in
    --*=*) option=${cur%%=*}; after "$option="; kind_of "$command" "$option" || exit 0 ;;
    -*) kind= ;;
    *) [ -n "$command" ] && { kind_of "$command" $((place + 1)) || exit 0; } ;;
    esac
fi
case $kind in
'') case "$command $cur" in
@CASES@
    esac ;;
words*) for each in ${kind#words}; do say "$each" ''; done ;;
files*) printf '@%s\n' "$kind"; printf '%s\n' "$prefix" ;;
column) columns ;;
columns) list ;;
prediction) prediction ;;
model) case $cur in *=*) after "${cur%%=*}="; prediction ;; esac ;;
esac
"""

_BASH = r"""# bash completion of fastmcmd
_fastmcmd_answer=@ANSWER@

_fastmcmd() {
    local rest=${COMP_LINE:0:COMP_POINT} words=() i piece trimmed
    for ((i = 0; i <= COMP_CWORD; i++)); do  # bash cuts at : and =, too: only blanks cut here
        piece=${COMP_WORDS[i]}
        trimmed=${rest#"${rest%%[![:blank:]]*}"}
        ((i == COMP_CWORD)) && piece=$trimmed
        if [[ $i -eq 0 || $trimmed != "$rest" ]]; then
            words+=("$piece")
        else
            words[${#words[@]} - 1]+=$piece
        fi
        rest=${trimmed#"$piece"}
    done
    local raw=${words[${#words[@]} - 1]} quotes
    quotes=${raw//[!\'\"]/}
    ((${#quotes} % 2)) && quotes=${quotes:0:1} || quotes=  # the one that is open
    for ((i = 0; i < ${#words[@]}; i++)); do  # quotes and backslashes are not part of names
        words[i]=${words[i]//[\\\'\"]/}
    done
    local last=$((${#words[@]} - 1)) line endings= prefix= matches=()
    local cur=${words[last]}
    while IFS= read -r line; do
        if [[ $line == @files* ]]; then
            endings=${line#@files} && IFS= read -r prefix && endings="$endings "
        else
            matches+=("${line%%$'\t'*}")
        fi
    done < <(sh -c "$_fastmcmd_answer" sh "$cur" "${words[@]:1:last - 1}")
    if [[ -n $endings ]]; then
        while IFS= read -r line; do
            if [[ -d $line || $endings == ' ' || $endings == *" .${line##*.} "* ]]; then
                matches+=("$prefix$line")
            fi
        done < <(compgen -f -- "${cur#"$prefix"}")
        compopt -o filenames 2>/dev/null
    elif [[ ${#matches[@]} -eq 1 && ${matches[0]} == *[:=] ]]; then
        compopt -o nospace 2>/dev/null
    fi
    local done= sign  # what bash has cut off must not come again
    for sign in : =; do
        if [[ $COMP_WORDBREAKS == *$sign* && $cur == *$sign* ]]; then
            piece=${cur%"${cur##*$sign}"}
            [[ ${#piece} -gt ${#done} ]] && done=$piece
        fi
    done
    COMPREPLY=()
    for line in "${matches[@]}"; do
        line=${line#"$done"}
        if [[ $quotes == \' ]]; then  # a name must stay a name: no $(...) of a file is ever run
            [[ $line == *\'* ]] && continue
        elif [[ $quotes == \" ]]; then
            [[ $line == *[\"\$\`\\!]* ]] && continue
        elif [[ -z $endings && $line == *[!A-Za-z0-9_.,:=@%+/^-]* ]]; then
            printf -v line %q "$line"
        fi
        COMPREPLY+=("$line")
    done
}
complete -F _fastmcmd fastmcmd"""

_ZSH = r"""#compdef fastmcmd
_fastmcmd_answer=@ANSWER@

_fastmcmd() {
    local -a lines open whole open_text whole_text
    local line word
    lines=("${(@f)$(sh -c $_fastmcmd_answer sh "${(Q)PREFIX}" "${(@Q)words[2,CURRENT-1]}")}")
    if [[ $lines[1] == @files* ]]; then
        local -a endings=(${=lines[1]#@files})
        [[ -n $lines[2] ]] && compset -P '*='
        if (( $#endings )); then _files -g "*(${(j:|:)endings})"; else _files; fi
        return
    fi
    for line in $lines; do
        word=${line%%$'\t'*}
        if [[ $word == *[:=] ]]; then
            open+=("$word") open_text+=("${line/$'\t'/  }")
        else
            whole+=("$word") whole_text+=("${line/$'\t'/  }")
        fi
    done
    (( $#open )) && compadd -S '' -l -d open_text -a open
    (( $#whole )) && compadd -l -d whole_text -a whole
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _fastmcmd "$@"
else
    compdef _fastmcmd fastmcmd
fi"""

_FISH = r"""# fish completion of fastmcmd
set -g __fastmcmd_answer @ANSWER@

function __fastmcmd_complete
    set -l before (commandline -opc)
    set -l now (commandline -ct | string unescape)
    set -l lines (sh -c $__fastmcmd_answer sh "$now" $before[2..-1])
    if string match -q '@files*' -- $lines[1]
        set -l endings (string split -n ' ' -- $lines[1])[2..-1]
        for each in (__fish_complete_path (string replace -- "$lines[2]" '' "$now"))
            set -l path (string split \t -- $each)[1]
            set -l ending (string match -r '\.[^.]*$' -- $path)
            if test -z "$endings"; or string match -q '*/' -- $path; or contains -- "$ending" $endings
                echo $lines[2]$path
            end
        end
    else
        printf '%s\n' $lines
    end
end
complete -c fastmcmd -f -a '(__fastmcmd_complete)'"""

_SHELLS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
