# Completion of vostok and mqadmin for bash: source <(vostok completion bash)
_vostok() {
    local IFS=$'\n'
    COMPREPLY=($(vostok complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
_vostok_mqadmin() {
    local IFS=$'\n'
    COMPREPLY=($(vostok complete -- mqadmin "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _vostok vostok
complete -o default -F _vostok_mqadmin mqadmin
