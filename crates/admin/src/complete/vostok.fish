# Completion of vostok and mqadmin for fish: vostok completion fish | source
complete -c vostok -f -a '(vostok complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
complete -c mqadmin -f -a '(vostok complete -- mqadmin (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
