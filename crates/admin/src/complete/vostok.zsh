#compdef vostok mqadmin
# Completion of vostok and mqadmin for zsh, after compinit: source <(vostok completion zsh), or as the file _vostok in fpath
_vostok() {
    local -a found name
    [[ $service == mqadmin ]] && name=(mqadmin)
    found=("${(@f)$(vostok complete -- $name "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    compadd -- $found
}
if [[ $funcstack[1] == _vostok ]]; then
    _vostok "$@"
else
    compdef _vostok vostok mqadmin
fi
