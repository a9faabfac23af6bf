package shellscan

// netRows are programs that talk to other machines.
var netRows = map[string]*program{
	"curl": {
		role: opNone, net: netHost, extra: spCurl, out: "o output D dump-header c cookie-jar trace trace-ascii stderr etag-save libcurl hsts alt-svc",
		in: "K config netrc-file cacert E cert key b cookie", url: "url x proxy preproxy socks4 socks4a socks5 socks5-hostname doh-url referer-url", opts: curlOptions,
	},
	"wget": {
		role: opNone, net: netHost, extra: spWget, out: "O output-document o output-file a append-output P directory-prefix save-cookies",
		in: "i input-file load-cookies", url: "", hidden: "use-askpass e execute", opts: wgetOptions,
	},
	"aria2c": {role: opNone, net: netHost, out: "o out d dir", hidden: "on-download-complete on-download-start", opts: options{
		flags: "cZVUqhDn", values: "odxsjkilmTu", long: "out= dir= on-download-complete= on-download-start= input-file= max-connection-per-server= split= header= checksum=",
	}},
	"http": httpieRow, "https": httpieRow, "httpie": httpieRow, "xh": httpieRow,
	"nc": ncRow, "ncat": ncRow, "netcat": ncRow,
	"telnet": {role: opNone, net: netFirst, opts: options{flags: "468EFKLNacdfrx", values: "SXbekln"}},
	"ftp":    {role: opNone, net: netFirst, opts: options{flags: "46AadefginpRtvV", values: "NoPqrsTu"}},
	"tftp":   {role: opNone, net: netFirst, opts: options{flags: "46lv", values: "mRc"}},
	"ssh": {role: opNone, net: netFirst, extra: spSSH, hidden: "", opts: options{
		flags: "46AaCfGgKkMNnqsTtVvXxYy", values: "BbcDEeFIiJLlmOopQRSWw",
	}, in: "i F"},
	"sftp": {role: opNone, net: netFirst, opts: options{flags: "46AaCfNpqrv", values: "BbcDFiJloPRSsX"}, in: "i F b"},
	"scp": {role: opPossible, net: netRemote, hidden: "S D", opts: options{
		flags: "346ABCOpqRrsTv", values: "cDFiJloPSX",
	}, in: "i F"},
	"rsync": {role: opPossible, net: netRemote, hidden: "e rsh rsync-path", opts: options{
		flags: "acbCdDgHhiIklLmnopPqRrsStuvWxzAEFJKNOUXy0468", values: "eBfMT@",
		long: "rsh= rsync-path= exclude= include= filter= exclude-from= include-from= files-from= password-file= delete delete-after delete-before delete-during delete-excluded archive compress progress partial info= max-size= min-size= bwlimit= port= log-file= temp-dir= backup-dir= backup chmod= chown= stats dry-run itemize-changes recursive verbose quiet checksum update links perms times group owner human-readable numeric-ids inplace append link-dest= compare-dest= copy-dest= timeout= contimeout= block-size= partial-dir= suffix= address= sockopts= out-format= protocol= iconv= checksum-seed= modify-window= max-delete= remove-source-files prune-empty-dirs mkpath relative omit-dir-times executability acls xattrs devices specials sparse whole-file one-file-system existing ignore-existing ignore-errors force safe-links copy-links copy-unsafe-links hard-links no-motd secluded-args old-args",
	}, in: "password-file exclude-from include-from files-from"},
	"socat":   {role: opNone, net: netNone, extra: spSocat, opts: options{flags: "VhvxdudDuU46gW", values: "lbtTrR"}},
	"openssl": {role: opNone, extra: spOpenssl, opts: options{single: true, long: "connect= in= out= key= cert= CAfile= CApath= host= port= inkey= pubin pass= passin= passout= servername= keyout= days= newkey= subj= config= proxy= quiet showcerts d e a A base64 noout text nodes x509 new"}, out: "out keyout", in: "in key cert inkey CAfile"},
	"ping":    hostRow, "ping6": hostRow, "traceroute": hostRow, "tracepath": hostRow, "mtr": hostRow, "nmap": hostRow,
	"nslookup": {role: opNone, net: netHost},
	"dig":      {role: opNone, net: netHost}, "host": {role: opNone, net: netFirst}, "whois": {role: opNone, net: netNone},
	"resolvectl": {role: opNone},
	"gsutil":     {role: opPossible, net: netURL},
	"git":        {role: opNone, net: netNone, extra: spGit},
	"docker":     {role: opNone, net: netNone, extra: spDocker}, "podman": {role: opNone, extra: spDocker}, "nerdctl": {role: opNone, extra: spDocker},
	"ssh-copy-id": {role: opNone, net: netFirst, opts: options{flags: "fnsx", values: "iopFt"}, in: "i"},
	"ssh-keygen":  {role: opNone, opts: options{flags: "ABceghHiklLpqQuUvyX", values: "abCDEfFGIJjKmMNnOPrRsSTtVWwYZz"}, outBy: "f"},
	"ssh-add":     {role: opRead}, "gpg": {role: opPossible}, "age": {role: opPossible},
	"rclone": {role: opPossible, net: netRemote, code: runsNothing},
}

var hostRow = &program{role: opNone, net: netFirst, opts: options{flags: "46abBdDfLnOqrRUvVAFPsTu", values: "cCeFiIlmMpQStTwWN"}}

var httpieRow = &program{role: opNone, net: netFirst, opts: options{
	flags: "jfphbvcdSFI4", values: "oaAs", long: "output= download form json auth= auth-type= session= verify= proxy= timeout= headers body verbose follow ignore-stdin",
}, out: "o output", url: "proxy"}

var ncRow = &program{role: opNone, net: netNone, extra: spNC, hidden: "e c exec sh-exec lua-exec", opts: options{
	flags: "46bCdDFhklnNrStUuvzZ", values: "cegGiIMmoOpPqsTVwWxXy",
	long: "exec= sh-exec= lua-exec= ssl listen keep-open verbose source= source-port= proxy= proxy-type= proxy-auth= wait= idle-timeout= send-only recv-only udp crlf",
}, outBy: "o"}

var curlOptions = options{
	flags:  "0123456aBfgGiIjJklLMnNOpqRsSVZ#v",
	values: "AbcCdDeEFhHKmoPQrtTuUwxXyYz",
	long: "url= output= dump-header= cookie-jar= cookie= trace= trace-ascii= stderr= etag-save= etag-compare= libcurl= hsts= alt-svc= config= netrc-file= cacert= capath= cert= cert-type= key= key-type= pass= " +
		"proxy= preproxy= socks4= socks4a= socks5= socks5-hostname= doh-url= proxy-user= proxy-header= noproxy= data= data-ascii= data-binary= data-raw= data-urlencode= json= form= form-string= upload-file= user= user-agent= header= " +
		"request= range= referer= max-time= connect-timeout= retry= retry-delay= retry-max-time= limit-rate= write-out= interface= resolve= connect-to= unix-socket= abstract-unix-socket= quote= postquote= prequote= time-cond= ciphers= " +
		"tls-max= tlsv1 sslv2 sslv3 tlsv1.0 tlsv1.1 tlsv1.2 tlsv1.3 max-redirs= max-filesize= mail-from= mail-rcpt= oauth2-bearer= request-target= continue-at= speed-limit= speed-time= keepalive-time= local-port= proto= proto-default= proto-redir= output-dir= url-query= rate= variable= expand-url= expand-data= aws-sigv4= " +
		"netrc netrc-optional silent show-error fail fail-with-body fail-early location location-trusted insecure include head get verbose compressed remote-name remote-name-all remote-header-name create-dirs no-buffer progress-bar no-progress-meter globoff http1.0 http1.1 http2 http2-prior-knowledge http3 ipv4 ipv6 post301 post302 post303 remote-time raw tcp-fastopen tcp-nodelay anyauth basic digest ntlm negotiate path-as-is parallel next disable version help no-keepalive ssl ssl-reqd xattr styled-output retry-all-errors retry-connrefused skip-existing",
}

var wgetOptions = options{
	flags:  "46bcdEFhHkKLmNpqrSVvx",
	values: "aABDeGiIloOPQRtTUwX", glued: "n",
	long: "output-document= output-file= append-output= directory-prefix= input-file= load-cookies= save-cookies= post-data= post-file= body-data= body-file= method= header= user= password= http-user= http-password= ftp-user= ftp-password= " +
		"user-agent= referer= execute= use-askpass= ca-certificate= ca-directory= certificate= private-key= crl-file= timeout= tries= wait= limit-rate= level= accept= reject= domains= exclude-domains= include-directories= exclude-directories= base= config= cut-dirs= quota= bind-address= dns-timeout= connect-timeout= read-timeout= waitretry= max-redirect= progress= prefer-family= secure-protocol= ciphers= start-pos= report-speed= restrict-file-names= accept-regex= reject-regex= regex-type= local-encoding= remote-encoding= default-page= retry-on-http-error= warc-file= " +
		"quiet verbose no-verbose continue recursive mirror no-check-certificate no-clobber timestamping background no-parent no-host-directories no-directories force-directories page-requisites convert-links adjust-extension span-hosts relative content-disposition content-on-error trust-server-names spider server-response show-progress no-proxy no-cache no-cookies keep-session-cookies help version inet4-only inet6-only https-only auth-no-challenge delete-after backup-converted debug",
}
