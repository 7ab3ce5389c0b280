# Completion of vostok and mqadmin for zsh, after compinit: source <(vostok completion zsh)
_vostok() {
    local -a found
    found=("${(@f)$(vostok complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    compadd -- $found
}
_vostok_mqadmin() {
    local -a found
    found=("${(@f)$(vostok complete -- mqadmin "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    compadd -- $found
}
compdef _vostok vostok
compdef _vostok_mqadmin mqadmin
