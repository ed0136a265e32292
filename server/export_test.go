package server

import "net/http"

// Handler is the server without its listener.
func (s *Server) Handler() http.Handler { return s.handler }

// Routes are the server's own, as "METHOD path".
func (s *Server) Routes() []string {
	var all []string
	for _, r := range s.routes() {
		all = append(all, r.method+" "+r.path)
	}
	return all
}

// FileName is an id as a part of a file's name.
func FileName(id string) string { return fileName(id) }
